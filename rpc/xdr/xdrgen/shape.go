package main

import "fmt"

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
	builtinHyper:  {"int64", 8, "d.Int64()", "w.Int64(%s)"},
	builtinUhyper: {"uint64", 8, "d.Uint64()", "w.Uint64(%s)"},
	builtinBool:   {"bool", 4, "d.Bool()", "w.Bool(%s)"},
	builtinFloat:  {"float32", 4, "math.Float32frombits(d.Uint32())", "w.Uint32(math.Float32bits(%s))"},
	builtinDouble: {"float64", 8, "math.Float64frombits(d.Uint64())", "w.Uint64(math.Float64bits(%s))"},
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
