package main

import (
	"fmt"
	"strconv"
)

// A shape generates the Go code for a declaration: its type, and the statements that decode and
// encode it. The parameter at is an addressable Go expression of that type. In the generated code,
// the decoder is d and the writer is w.
type shape interface {
	goType() string
	decode(at string) string
	encode(at string) string
}

// scalar is a built-in type of fixed size. size is that size in bytes.
type scalar struct {
	name    string
	size    int64
	read    string // expression
	written string // statement, %s is the value
}

var scalars = map[builtin]scalar{
	builtinInt:    {"int32", 4, "d.Int32()", "w.Int32(%s)"},
	builtinUint:   {"uint32", 4, "d.Uint32()", "w.Uint32(%s)"},
	"hyper":       {"int64", 8, "d.Int64()", "w.Int64(%s)"},
	builtinUhyper: {"uint64", 8, "d.Uint64()", "w.Uint64(%s)"},
	builtinBool:   {"bool", 4, "d.Bool()", "w.Bool(%s)"},
	"float":       {"float32", 4, "math.Float32frombits(d.Uint32())", "w.Uint32(math.Float32bits(%s))"},
	"double":      {"float64", 8, "math.Float64frombits(d.Uint64())", "w.Uint64(math.Float64bits(%s))"},
	// Go has no type for a quadruple. The generated code has its sixteen bytes as an array.
	builtinQuadruple: {"[16]byte", 16, "", ""},
}

func (s scalar) goType() string          { return s.name }
func (s scalar) decode(at string) string { return at + " = " + s.read }
func (s scalar) encode(at string) string { return fmt.Sprintf(s.written, at) }

// fixedBytes is an opaque of fixed length. Its Go type is an array.
type fixedBytes struct{ length string }

func (s fixedBytes) goType() string        { return "[" + s.length + "]byte" }
func (fixedBytes) decode(at string) string { return "d.FixedOpaqueTo(" + whole(at) + "[:])" }
func (fixedBytes) encode(at string) string { return "w.FixedOpaque(" + whole(at) + "[:])" }

// whole returns its argument, a Go expression. It puts parentheses around an expression to which an
// index cannot be appended otherwise, such as *p.
func whole(at string) string {
	if at[0] == '*' {
		return "(" + at + ")"
	}
	return at
}

// countedBytes is an opaque or string of variable length. Its Go type is a slice that aliases the
// stream.
type countedBytes struct{ limit string }

func (countedBytes) goType() string { return "[]byte" }

func (s countedBytes) decode(at string) string {
	return at + " = d.Opaque(" + s.limit + ")"
}

func (s countedBytes) encode(at string) string {
	if s.limit == noLimit {
		return "w.Opaque(" + at + ")"
	}
	return "w.BoundedOpaque(" + at + ", " + s.limit + ")"
}

const noLimit = "xdr.NoLimit"

// eligibleBytes is an opaque that is eligible for direct data placement.
type eligibleBytes struct{ limit string }

func (eligibleBytes) goType() string            { return "xdr.Eligible" }
func (s eligibleBytes) decode(at string) string { return at + ".Decode(d, " + s.limit + ")" }
func (s eligibleBytes) encode(at string) string { return at + ".Encode(w, " + s.limit + ")" }

// generated is a Go type with methods Decode and Encode.
type generated struct{ name string }

func (s generated) goType() string        { return s.name }
func (generated) decode(at string) string { return at + ".Decode(d)" }
func (generated) encode(at string) string { return at + ".Encode(w)" }

// array is an array of fixed length.
type array struct {
	length string
	elem   shape
}

func (s array) goType() string { return "[" + s.length + "]" + s.elem.goType() }

func (s array) decode(at string) string { return everyElement(at, s.elem.decode) }
func (s array) encode(at string) string { return everyElement(at, s.elem.encode) }

func everyElement(at string, do func(string) string) string {
	return "for i := range " + at + " {\n" + do(whole(at)+"[i]") + "\n}"
}

// slice is an array of variable length whose definition sets a largest length.
type slice struct {
	limit string
	elem  shape
	min   int64 // smallest size of an element, in bytes
}

func (s slice) goType() string { return "[]" + s.elem.goType() }

func (s slice) decode(at string) string {
	return fmt.Sprintf("%s = make(%s, d.Count(%s, %d))\n", at, s.goType(), s.limit, s.min) +
		everyElement(at, s.elem.decode)
}

func (s slice) encode(at string) string {
	return fmt.Sprintf("w.Count(len(%s), %s)\n", at, s.limit) + everyElement(at, s.elem.encode)
}

// shapeOf returns the shape of d. owner is the Go name of the type that contains d, or "" for the
// declaration of a typedef. If the shape needs another generated type, shapeOf adds that type to
// the emitter's queue.
func (e *emitter) shapeOf(d *declaration, owner string) shape {
	length := noLimit
	if d.bound != nil {
		length = e.lengthOf(*d.bound)
	}
	if d.isBytes() {
		switch {
		case d.kind == declFixedArray:
			return fixedBytes{length}
		case d.notes.ddp:
			return eligibleBytes{length}
		}
		return countedBytes{length}
	}
	if node := e.m.optionalOf(d); e.m.nodes[node] {
		return generated{e.listType(node)}
	}
	elem := e.shapeOfSpec(d.spec)
	switch d.kind {
	case declFixedArray:
		return array{length, elem}
	case declVarArray:
		if d.bound == nil || d.notes.iterate {
			return generated{e.iteratorType(d, owner, length, elem)}
		}
		if e.m.number(*d.bound) == 1 { // the same encoding as optional data (RFC 4506 §4.19)
			return generated{e.optionalType(elem)}
		}
		return slice{length, elem, e.minOf(d.spec)}
	case declOptional:
		return generated{e.optionalType(elem)}
	}
	return elem
}

// shapeOfSpec returns the shape of one value of type s.
func (e *emitter) shapeOfSpec(s typeSpec) shape {
	if s.builtin == builtinQuadruple {
		return fixedBytes{"16"}
	}
	if s.builtin != "" {
		return scalars[s.builtin]
	}
	d := e.m.types[s.name]
	if t, ok := d.(*typedefDef); ok && e.m.vanishes(t) {
		return e.shapeOf(t.decl, "")
	}
	return generated{goName(d.head())}
}

// lengthOf returns the Go expression for the length of an array: the Go name of a constant if v is
// the name of a const definition, otherwise a number.
func (e *emitter) lengthOf(v value) string {
	if e.constants[v.name] {
		return e.m.goValue(v)
	}
	return strconv.FormatInt(e.m.number(v), 10)
}

// minOf returns the smallest size of a value of type s, in bytes.
func (e *emitter) minOf(s typeSpec) int64 {
	if s.builtin != "" {
		return scalars[s.builtin].size
	}
	return e.m.sizes[s.name].min
}
