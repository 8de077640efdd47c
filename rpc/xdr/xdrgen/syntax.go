package main

import "strings"

// These types are the syntax tree. Their names are those of the grammar in RFC 4506 §6.3 and RFC
// 5531 §12.2.

// A definition is a *constDef, *enumDef, *structDef, *unionDef, *typedefDef or *programDef.
type definition interface{ head() *header }

// header is the common part of all definitions.
type header struct {
	name  string
	line  int
	doc   string
	notes notes
}

func (h *header) head() *header { return h }

type constDef struct {
	header
	value value
}

type enumDef struct {
	header
	members []enumMember
}

type enumMember struct {
	header
	value value
}

type structDef struct {
	header
	fields []*declaration
}

type unionDef struct {
	header
	discriminant *declaration
	arms         []*arm // the default arm, if there is one, is the last
}

type arm struct {
	cases []value      // none for the default arm
	decl  *declaration // declVoid for void
}

type typedefDef struct {
	header
	decl *declaration
}

type programDef struct {
	header
	number   value
	versions []*versionDef
}

type versionDef struct {
	header
	number     value
	procedures []*procedureDef
}

type procedureDef struct {
	header
	number value
	result typeSpec
	args   []typeSpec
}

// value is a number or the name of a constant or enum member.
type value struct {
	name   string
	text   string // the number as written in the file
	number int64
	line   int
}

type declKind int

const (
	declPlain      declKind = iota // T name
	declFixedArray                 // T name[bound]
	declVarArray                   // T name<bound>
	declOptional                   // T *name
	declVoid                       // void
)

type declaration struct {
	header
	kind  declKind
	spec  typeSpec
	bound *value // nil if there is none
}

// typeSpec is a built-in type or the name of a defined type.
type typeSpec struct {
	builtin builtin // "" for a defined type
	name    string
	line    int
}

// A builtin is the name of a built-in type: a key of scalars, or builtinOpaque, builtinString or
// builtinVoid.
type builtin string

const (
	builtinInt    builtin = "int"
	builtinUint   builtin = "unsigned int"
	builtinUhyper builtin = "unsigned hyper"
	builtinBool   builtin = "bool"
	builtinOpaque builtin = "opaque"
	builtinString builtin = "string"
	builtinVoid   builtin = "void"
)

// notes are the annotations before a definition, declaration or procedure.
type notes struct {
	// goName is the Go name to use instead of the derived one: /*@go NFSStat3*/. For a program, it
	// is a prefix of the names of its constants.
	goName string
	// ddp is true if this opaque item is eligible for direct data placement (RFC 8166 §3.4.2):
	// /*@ddp*/.
	ddp bool
	// open is true if the decoder accepts values of this enum that have no name, because a union
	// arm or the caller handles them: /*@open*/.
	open bool
	// external is true if the Go type of this typedef, with Decode and Encode, is written by hand.
	// The typedef must be an array with a bound, from which the sizes follow: /*@external*/.
	external bool
}

// add sets the annotation in a comment at line.
func (n *notes) add(text string, line int) {
	name, value, _ := strings.Cut(strings.TrimSpace(text), " ")
	value = strings.TrimSpace(value)
	if (name == "go") != (value != "") {
		fail(line, "annotation @%s: only @go takes a value, and needs one", name)
	}
	switch name {
	case "go":
		n.goName = value
	case "ddp":
		n.ddp = true
	case "open":
		n.open = true
	case "external":
		n.external = true
	default:
		fail(line, "unknown annotation @%s", name)
	}
}
