package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A shape generates the Go code for a declaration: its type, and the statements that decode and
// encode it. In the statements, @ stands for an addressable Go expression of that type, and @@ for
// the same expression in a form to which an index can be appended. The decoder is d and the writer
// is w.
type shape struct{ goType, decode, encode string }

// with returns the statements for the Go expression at.
func with(statements, at string) string {
	indexed := at
	if at[0] == '*' {
		indexed = "(" + at + ")"
	}
	return strings.NewReplacer("@@", indexed, "@", at).Replace(statements)
}

// scalar is a built-in type of fixed size. size is that size in bytes.
type scalar struct {
	shape
	size int64
}

var scalars = map[builtin]scalar{
	builtinInt:    {shape{"int32", "@ = d.Int32()", "w.Int32(@)"}, 4},
	builtinUint:   {shape{"uint32", "@ = d.Uint32()", "w.Uint32(@)"}, 4},
	"hyper":       {shape{"int64", "@ = d.Int64()", "w.Int64(@)"}, 8},
	builtinUhyper: {shape{"uint64", "@ = d.Uint64()", "w.Uint64(@)"}, 8},
	builtinBool:   {shape{"bool", "@ = d.Bool()", "w.Bool(@)"}, 4},
}

// scalarSize returns the size of a scalar in bytes, or 0 if s is the shape of another type.
func (s shape) scalarSize() int64 {
	for _, of := range scalars {
		if of.shape == s {
			return of.size
		}
	}
	return 0
}

const noLimit = "xdr.NoLimit"

// bytesShape returns the shape of an opaque or string. In Go, one of fixed length is an array, and
// one of variable length is a slice that aliases the stream. length is its length or its limit.
func bytesShape(d *declaration, length string) shape {
	switch {
	case d.kind == declFixedArray:
		return shape{"[" + length + "]byte", "d.FixedOpaqueTo(@@[:])", "w.FixedOpaque(@@[:])"}
	case d.notes.ddp:
		return shape{"xdr.Eligible", "@.Decode(d, " + length + ")", "@.Encode(w, " + length + ")"}
	case length == noLimit:
		return shape{"[]byte", "@ = d.Opaque(xdr.NoLimit)", "w.Opaque(@)"}
	}
	return shape{"[]byte", "@ = d.Opaque(" + length + ")", "w.BoundedOpaque(@, " + length + ")"}
}

// generated returns the shape of a Go type with methods Decode and Encode.
func generated(name string) shape { return shape{name, "@.Decode(d)", "@.Encode(w)"} }

// array returns the shape of an array of fixed length.
func array(length string, elem shape) shape {
	return shape{"[" + length + "]" + elem.goType, everyElement(elem.decode), everyElement(elem.encode)}
}

func everyElement(do string) string {
	return "for i := range @ {\n" + with(do, "@@[i]") + "\n}"
}

// slice returns the shape of an array of variable length whose definition sets a largest length.
// smallest is the smallest size of an element, in bytes.
func slice(limit string, elem shape, smallest int64) shape {
	return shape{
		"[]" + elem.goType,
		fmt.Sprintf("@ = make([]%s, d.Count(%s, %d))\n", elem.goType, limit, smallest) + everyElement(elem.decode),
		fmt.Sprintf("w.Count(len(@), %s)\n", limit) + everyElement(elem.encode),
	}
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
		return bytesShape(d, length)
	}
	if node := e.m.optionalOf(d); e.m.nodes[node] {
		return generated(e.listType(node))
	}
	elem := e.shapeOfSpec(d.spec)
	switch d.kind {
	case declFixedArray:
		return array(length, elem)
	case declVarArray:
		if d.bound == nil {
			return generated(e.iteratorType(d, owner, elem))
		}
		if e.m.number(*d.bound) == 1 { // the same encoding as optional data (RFC 4506 §4.19)
			return generated(e.optionalType(elem))
		}
		return slice(length, elem, e.minOf(d.spec))
	case declOptional:
		return generated(e.optionalType(elem))
	}
	return elem
}

// shapeOfSpec returns the shape of one value of type s.
func (e *emitter) shapeOfSpec(s typeSpec) shape {
	if s.builtin != "" {
		return scalars[s.builtin].shape
	}
	d := e.m.types[s.name]
	if t, ok := d.(*typedefDef); ok && e.m.vanishes(t) {
		return e.shapeOf(t.decl, "")
	}
	return generated(goName(d.head()))
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
