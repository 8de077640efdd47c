package main

import "slices"

// model has the definitions, with tables from names to their definitions and numbers.
type model struct {
	definitions []definition
	types       map[string]definition
	// constants has the constants, the enum members, TRUE and FALSE.
	constants map[string]constant
	// nodes has the elements of linked lists: structs whose last field is optional data of the same
	// struct.
	nodes map[string]bool
	// sizing has the types whose sizes are being computed. It serves to find recursive types.
	sizing map[string]bool
	sizes  map[string]size
}

// A constant is a constant or a member of enum. goValue is the Go expression for it.
type constant struct {
	number  int64
	goValue string
	enum    *enumDef
}

// resolve makes the model of definitions. It fails if they break the rules of the XDR language, or
// if xdrgen does not support them.
func resolve(definitions []definition) *model {
	m := &model{
		definitions: definitions,
		types:       map[string]definition{},
		constants:   map[string]constant{"TRUE": {number: 1, goValue: "true"}, "FALSE": {goValue: "false"}},
		nodes:       map[string]bool{},
		sizing:      map[string]bool{},
		sizes:       map[string]size{},
	}
	m.collect()
	m.checkTypes()
	m.findNodes()
	m.checkUnions()
	for _, d := range definitions {
		if h := d.head(); m.types[h.name] != nil {
			m.sizeOf(h.name, h.line)
		}
	}
	return m
}

// collect fills the tables of types and values.
func (m *model) collect() {
	for _, d := range m.definitions {
		h := d.head()
		switch d := d.(type) {
		case *constDef:
			m.addConstant(h, d.value, nil)
			continue
		case *enumDef:
			for i := range d.members {
				member := &d.members[i]
				if n := m.addConstant(&member.header, member.value, d); n != int64(int32(n)) {
					fail(member.line, "%s is not of 32 bits", member.name)
				}
			}
		case *programDef:
			continue
		}
		if m.types[h.name] != nil {
			fail(h.line, "type %s is defined twice", h.name)
		}
		m.types[h.name] = d
	}
}

func (m *model) addConstant(h *header, v value, enum *enumDef) (number int64) {
	if _, ok := m.constants[h.name]; ok {
		fail(h.line, "constant %s is defined twice", h.name)
	}
	number = m.number(v)
	m.constants[h.name] = constant{number, goName(h), enum}
	return number
}

// number returns the value of v, which is a literal or the name of a constant defined before.
func (m *model) number(v value) int64 {
	if v.name == "" {
		return v.number
	}
	c, ok := m.constants[v.name]
	if !ok {
		fail(v.line, "constant %s is not defined before its use", v.name)
	}
	return c.number
}

// goValue returns the Go expression for the constant value v.
func (m *model) goValue(v value) string {
	if v.name != "" {
		return m.constants[v.name].goValue
	}
	return v.text
}

// declarations returns the declarations of d except void ones.
func declarations(d definition) (all []*declaration) {
	switch d := d.(type) {
	case *structDef:
		return d.fields // checkTypes refuses void fields
	case *typedefDef:
		return []*declaration{d.decl}
	case *unionDef:
		all = append(all, d.discriminant)
		for _, a := range d.arms {
			all = append(all, a.decl)
		}
	}
	return slices.DeleteFunc(all, func(d *declaration) bool { return d.kind == declVoid })
}

// checkTypes fails for undefined types, void fields, and invalid lengths and annotations.
func (m *model) checkTypes() {
	for _, d := range m.definitions {
		switch d := d.(type) {
		case *structDef:
			for _, f := range d.fields {
				if f.kind == declVoid {
					fail(f.line, "struct %s has a void field", d.name)
				}
			}
		case *programDef:
			for _, v := range d.versions {
				for _, c := range v.procedures {
					for _, s := range append([]typeSpec{c.result}, c.args...) {
						m.checkSpec(s)
					}
				}
			}
		}
		for _, f := range declarations(d) {
			m.checkDeclaration(f)
		}
		checkExternal(d)
	}
}

func (m *model) checkSpec(s typeSpec) {
	if s.builtin == "" && m.types[s.name] == nil {
		fail(s.line, "type %s is not defined", s.name)
	}
}

func (m *model) checkDeclaration(d *declaration) {
	m.checkSpec(d.spec)
	if d.notes.ddp && (d.kind != declVarArray || !d.isBytes()) {
		fail(d.line, "@ddp on %s, which is not an opaque of variable length", d.name)
	}
	if d.bound != nil {
		n := m.number(*d.bound)
		if n < 0 || n > 1<<32-1 || (d.kind == declFixedArray && n == 0 && !d.isBytes()) {
			fail(d.line, "%s has the impossible length %d", d.name, n)
		}
	}
}

// checkExternal fails if d, or a declaration in it, is annotated @external. A typedef of an array
// with a bound may have this annotation, but not together with @ddp.
func checkExternal(d definition) {
	t, ok := d.(*typedefDef)
	if ok && t.decl.bound != nil && !t.notes.ddp {
		return
	}
	annotated := []*header{d.head()}
	for _, f := range declarations(d) {
		annotated = append(annotated, &f.header)
	}
	for _, h := range annotated {
		if h.notes.external {
			fail(h.line, "@external on %s, which is not a typedef of an array with a bound", h.name)
		}
	}
}

func (d *declaration) isBytes() bool {
	return d.spec.builtin == builtinOpaque || d.spec.builtin == builtinString
}

// findNodes finds the elements of linked lists, and stores them in m.nodes.
func (m *model) findNodes() {
	for _, d := range m.definitions {
		if s, ok := d.(*structDef); ok && m.optionalOf(s.fields[len(s.fields)-1]) == s.name {
			if len(s.fields) == 1 {
				fail(s.line, "list element %s is empty", s.name)
			}
			m.nodes[s.name] = true
		}
	}
}

// optionalOf returns T if d is optional data of a defined type T, directly or through typedefs.
// Otherwise it returns "".
func (m *model) optionalOf(d *declaration) string {
	if d = m.plain(d); d.kind == declOptional {
		return d.spec.name
	}
	return ""
}

// checkUnions fails for a union with an invalid discriminant or invalid cases (RFC 4506 §4.15).
func (m *model) checkUnions() {
	for _, d := range m.definitions {
		u, ok := d.(*unionDef)
		if !ok {
			continue
		}
		enum, kind := m.discriminant(u)
		if u.discriminant.kind != declPlain || (enum == nil &&
			kind != builtinInt && kind != builtinUint && kind != builtinBool) {
			fail(u.line, "union %s is discriminated by neither int, unsigned int, bool nor enum", u.name)
		}
		seen := map[int64]bool{}
		for _, a := range u.arms {
			for _, c := range a.cases {
				n := m.number(c)
				if seen[n] {
					fail(c.line, "union %s has two arms for %d", u.name, n)
				}
				seen[n] = true
				if kind == builtinBool && n != 0 && n != 1 {
					fail(c.line, "a boolean is never %d", n)
				}
				if enum != nil && !slices.ContainsFunc(enum.members, func(e enumMember) bool { return m.constants[e.name].number == n }) {
					fail(c.line, "%s has no member %d", enum.name, n)
				}
			}
		}
	}
}

// discriminant returns the type of u's discriminant: an enum, or nil and a built-in type.
func (m *model) discriminant(u *unionDef) (*enumDef, builtin) {
	d := m.plain(u.discriminant)
	e, _ := m.types[d.spec.name].(*enumDef)
	return e, d.spec.builtin
}

// plain returns the declaration that d means, after replacing typedefs that only rename a type.
func (m *model) plain(d *declaration) *declaration {
	for range len(m.types) {
		t, ok := m.types[d.spec.name].(*typedefDef)
		if d.kind != declPlain || !ok {
			break
		}
		d = t.decl
	}
	return d
}

// size is the size of a type's encoding, in bytes.
type size struct {
	// min is the smallest size. With it, a decoder checks an array's count against the length of
	// the stream.
	min int64
	// max is the largest size, or unbounded.
	max int64
	// reduced is the largest size without the content and padding of DDP-eligible items, of which
	// only the counts are left (RFC 8166 §3.4.4), or unbounded.
	reduced int64
}

// unbounded means that the definition does not limit the size, or that the limit is above
// limitOfSizes.
const unbounded = -1

// limitOfSizes is the largest size that counts as bounded, because no RPC message is longer.
const limitOfSizes = 1<<31 - 1

func fixed(n int64) size { return size{n, n, n} }

func plus(a, b int64) int64 {
	if a == unbounded || b == unbounded || a+b > limitOfSizes {
		return unbounded
	}
	return a + b
}

func times(a, n int64) int64 {
	if n == 0 || a == 0 {
		return 0
	}
	if a == unbounded || n > limitOfSizes/a {
		return unbounded
	}
	return a * n
}

func most(a, b int64) int64 {
	if a == unbounded || b == unbounded {
		return unbounded
	}
	return max(a, b)
}

func (a size) plus(b size) size {
	return size{a.min + b.min, plus(a.max, b.max), plus(a.reduced, b.reduced)}
}

func (a size) or(b size) size {
	return size{min(a.min, b.min), most(a.max, b.max), most(a.reduced, b.reduced)}
}

// sizeOf returns the size of a defined type. name is the type's XDR name. It fails for a type that
// contains itself; line is the line number for that error.
func (m *model) sizeOf(name string, line int) size {
	if s, ok := m.sizes[name]; ok {
		return s
	}
	if m.sizing[name] {
		fail(line, "type %s contains itself other than as a linked list", name)
	}
	m.sizing[name] = true
	var s size
	switch d := m.types[name].(type) {
	case *enumDef:
		s = fixed(4)
	case *typedefDef:
		s = m.sizeOfDeclaration(d.decl)
	case *structDef:
		for _, f := range m.valueFields(d) {
			s = s.plus(m.sizeOfDeclaration(f))
		}
	case *unionDef:
		s = m.sizeOfDeclaration(d.arms[0].decl)
		for _, a := range d.arms[1:] {
			s = s.or(m.sizeOfDeclaration(a.decl))
		}
		s = s.plus(fixed(4))
	}
	m.sizes[name] = s
	return s
}

func (m *model) sizeOfDeclaration(d *declaration) size {
	if d.kind == declVoid {
		return fixed(0)
	}
	bound := int64(1<<32 - 1)
	if d.bound != nil {
		bound = m.number(*d.bound)
	}
	if d.isBytes() {
		padded := (bound + 3) &^ 3
		switch {
		case d.kind == declFixedArray:
			return fixed(padded)
		case d.notes.ddp:
			return size{4, plus(4, padded), 4}
		}
		return size{4, plus(4, padded), plus(4, padded)}
	}
	if m.nodes[m.optionalOf(d)] {
		return size{4, unbounded, unbounded}
	}
	s := fixed(scalars[d.spec.builtin].size)
	if d.spec.builtin == "" {
		s = m.sizeOf(d.spec.name, d.line)
	}
	switch d.kind {
	case declOptional:
		s = size{4, plus(4, s.max), plus(4, s.reduced)}
	case declFixedArray:
		s = size{times(s.min, bound), times(s.max, bound), times(s.reduced, bound)}
	case declVarArray:
		s = size{4, plus(4, times(s.max, bound)), plus(4, times(s.reduced, bound))}
	}
	return s
}

// valueFields returns d's fields. For a list element, it leaves out the link to the next element.
func (m *model) valueFields(d *structDef) []*declaration {
	if m.nodes[d.name] {
		return d.fields[:len(d.fields)-1]
	}
	return d.fields
}
