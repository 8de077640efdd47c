package main

// These types are the syntax tree. Their names are those of the grammar in RFC 4506 §6.3 and RFC
// 5531 §12.2.

type spec struct {
	file        string
	definitions []definition // in the order of the file
}

// A definition is a *constDef, *enumDef, *structDef, *unionDef, *typedefDef or
// *programDef.
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
	arms         []*arm
	otherwise    *arm // the default arm, or nil
}

type arm struct {
	cases []value
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

// typeSpec is a built-in type or the name of a defined type. If a type is defined inside a
// declaration, the parser gives it a name.
type typeSpec struct {
	builtin builtin
	name    string // set if builtin is builtinNone
	line    int
}

type builtin int

const (
	builtinNone builtin = iota
	builtinInt
	builtinUint
	builtinHyper
	builtinUhyper
	builtinFloat
	builtinDouble
	builtinQuadruple
	builtinBool
	builtinOpaque
	builtinString
	builtinVoid
)
