package main

import "fmt"

// model is a spec with tables from names to their definitions and numbers.
type model struct {
	file  string
	spec  *spec
	types map[string]definition
	// values has the numbers of constants and enum members. goValues has the Go expressions for
	// them.
	values   map[string]int64
	goValues map[string]string
	// enumOf maps the name of an enum member to its enum.
	enumOf map[string]*enumDef
	// nodes has the elements of linked lists: structs whose last field is optional data of the same
	// struct.
	nodes map[string]bool
	// sizing has the types whose sizes are being computed. It serves to find recursive types.
	sizing map[string]bool
	sizes  map[string]size
}

func (m *model) errorf(line int, format string, a ...any) error {
	return &syntaxError{m.file, line, fmt.Sprintf(format, a...)}
}

// resolve makes the model of a spec. It returns an error if the definitions break the rules of the
// XDR language, or if xdrgen does not support them.
func resolve(s *spec) (*model, error) {
	m := &model{
		file: s.file, spec: s,
		types:    map[string]definition{},
		values:   map[string]int64{},
		goValues: map[string]string{},
		enumOf:   map[string]*enumDef{},
		nodes:    map[string]bool{},
		sizing:   map[string]bool{},
		sizes:    map[string]size{},
	}
	for _, f := range []func() error{
		m.collect, m.checkTypes, m.findNodes, m.checkUnions, m.checkSizes, m.checkGoNames,
	} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// collect fills the tables of types and values.
func (m *model) collect() error {
	m.values["TRUE"], m.values["FALSE"] = 1, 0
	m.goValues["TRUE"], m.goValues["FALSE"] = "true", "false"
	for _, d := range m.spec.definitions {
		h := d.head()
		switch d := d.(type) {
		case *constDef:
			if err := m.addValue(h, d.value); err != nil {
				return err
			}
			continue
		case *enumDef:
			for i := range d.members {
				m.enumOf[d.members[i].name] = d
				member := &d.members[i]
				if err := m.addValue(&member.header, member.value); err != nil {
					return err
				}
				if n := m.values[member.name]; n != int64(int32(n)) {
					return m.errorf(member.line, "%s is not of 32 bits", member.name)
				}
			}
		case *programDef:
			continue
		}
		if m.types[h.name] != nil {
			return m.errorf(h.line, "type %s is defined twice", h.name)
		}
		m.types[h.name] = d
	}
	return nil
}

func (m *model) addValue(h *header, v value) error {
	if _, ok := m.values[h.name]; ok {
		return m.errorf(h.line, "constant %s is defined twice", h.name)
	}
	n, err := m.number(v)
	if err != nil {
		return err
	}
	m.values[h.name] = n
	m.goValues[h.name] = goName(h)
	return nil
}

// number returns the value of v, which is a literal or the name of a constant defined before.
func (m *model) number(v value) (int64, error) {
	if v.name == "" {
		return v.number, nil
	}
	n, ok := m.values[v.name]
	if !ok {
		return 0, m.errorf(v.line, "constant %s is not defined before its use", v.name)
	}
	return n, nil
}

// goValue returns the Go expression for v.
func (m *model) goValue(v value) string {
	if v.name != "" {
		return m.goValues[v.name]
	}
	return v.text
}

// declarations calls f for each declaration of d except void ones.
func declarations(d definition, f func(*declaration) error) error {
	var all []*declaration
	switch d := d.(type) {
	case *structDef:
		all = d.fields
	case *typedefDef:
		all = []*declaration{d.decl}
	case *unionDef:
		all = []*declaration{d.discriminant}
		for _, a := range d.everyArm() {
			all = append(all, a.decl)
		}
	}
	for _, decl := range all {
		if decl.kind == declVoid {
			continue
		}
		if err := f(decl); err != nil {
			return err
		}
	}
	return nil
}

func (u *unionDef) everyArm() []*arm {
	if u.otherwise == nil {
		return u.arms
	}
	return append(u.arms[:len(u.arms):len(u.arms)], u.otherwise)
}

// checkTypes returns an error for undefined types, void fields, and invalid lengths and
// annotations.
func (m *model) checkTypes() error {
	for _, d := range m.spec.definitions {
		if s, ok := d.(*structDef); ok {
			for _, f := range s.fields {
				if f.kind == declVoid {
					return m.errorf(f.line, "struct %s has a void field", s.name)
				}
			}
		}
		if err := declarations(d, m.checkDeclaration); err != nil {
			return err
		}
		if err := m.checkExternal(d); err != nil {
			return err
		}
		if p, ok := d.(*programDef); ok {
			for _, v := range p.versions {
				for _, c := range v.procedures {
					for _, s := range append([]typeSpec{c.result}, c.args...) {
						if err := m.checkSpec(s); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

func (m *model) checkSpec(s typeSpec) error {
	if s.builtin == builtinNone && m.types[s.name] == nil {
		return m.errorf(s.line, "type %s is not defined", s.name)
	}
	return nil
}

func (m *model) checkDeclaration(d *declaration) error {
	if err := m.checkSpec(d.spec); err != nil {
		return err
	}
	if d.notes.ddp && (d.kind != declVarArray || !d.isBytes()) {
		return m.errorf(d.line, "@ddp on %s, which is not an opaque of variable length", d.name)
	}
	if d.notes.iterate && (d.kind != declVarArray || d.isBytes()) {
		return m.errorf(d.line, "@iterate on %s, which is not an array of variable length", d.name)
	}
	if d.bound != nil {
		n, err := m.number(*d.bound)
		if err != nil {
			return err
		}
		if n < 0 || n > 1<<32-1 || (d.kind == declFixedArray && n == 0 && !d.isBytes()) {
			return m.errorf(d.line, "%s has the impossible length %d", d.name, n)
		}
	}
	return nil
}

// checkExternal returns an error if d, or a declaration in it, is annotated @external. A typedef of
// an array with a bound may have this annotation, but not together with @ddp or @iterate.
func (m *model) checkExternal(d definition) error {
	notes := d.head().notes
	if t, ok := d.(*typedefDef); ok && notes.external {
		if t.decl.bound != nil && !notes.ddp && !notes.iterate {
			return nil
		}
	} else if !notes.external {
		return declarations(d, func(f *declaration) error {
			if f.notes.external {
				return m.errorf(f.line, "@external on %s, which is not a typedef of an array with a bound", f.name)
			}
			return nil
		})
	}
	return m.errorf(d.head().line, "@external on %s, which is not a typedef of an array with a bound", d.head().name)
}

func (d *declaration) isBytes() bool {
	return d.spec.builtin == builtinOpaque || d.spec.builtin == builtinString
}

// findNodes finds the elements of linked lists, and stores them in m.nodes.
func (m *model) findNodes() error {
	for _, d := range m.spec.definitions {
		if s, ok := d.(*structDef); ok && m.optionalOf(s.fields[len(s.fields)-1]) == s.name {
			if len(s.fields) == 1 {
				return m.errorf(s.line, "list element %s is empty", s.name)
			}
			m.nodes[s.name] = true
		}
	}
	return nil
}

// optionalOf returns T if d is optional data of a defined type T, directly or through typedefs.
// Otherwise it returns "".
func (m *model) optionalOf(d *declaration) string {
	for range len(m.types) + 1 {
		switch d.kind {
		case declOptional:
			return d.spec.name
		case declPlain:
			t, ok := m.types[d.spec.name].(*typedefDef)
			if !ok {
				return ""
			}
			d = t.decl
		default:
			return ""
		}
	}
	return ""
}

// checkUnions returns an error for a union with an invalid discriminant or invalid cases (RFC 4506
// §4.15).
func (m *model) checkUnions() error {
	for _, d := range m.spec.definitions {
		u, ok := d.(*unionDef)
		if !ok {
			continue
		}
		enum, kind := m.discriminant(u)
		if u.discriminant.kind != declPlain || (enum == nil &&
			kind != builtinInt && kind != builtinUint && kind != builtinBool) {
			return m.errorf(u.line, "union %s is discriminated by neither int, unsigned int, bool nor enum", u.name)
		}
		seen := map[int64]bool{}
		for _, a := range u.arms {
			for _, c := range a.cases {
				n, err := m.number(c)
				if err != nil {
					return err
				}
				if seen[n] {
					return m.errorf(c.line, "union %s has two arms for %d", u.name, n)
				}
				seen[n] = true
				if kind == builtinBool && n != 0 && n != 1 {
					return m.errorf(c.line, "a boolean is never %d", n)
				}
				if enum != nil && !m.hasMember(enum, n) {
					return m.errorf(c.line, "%s has no member %d", enum.name, n)
				}
			}
		}
	}
	return nil
}

// discriminant returns the type of u's discriminant: an enum, or nil and a built-in type.
func (m *model) discriminant(u *unionDef) (*enumDef, builtin) {
	d := m.plain(u.discriminant)
	e, _ := m.types[d.spec.name].(*enumDef)
	return e, d.spec.builtin
}

func (m *model) hasMember(e *enumDef, n int64) bool {
	for _, member := range e.members {
		if m.values[member.name] == n {
			return true
		}
	}
	return false
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
