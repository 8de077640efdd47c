package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parser is a recursive-descent parser for the grammar of RFC 4506 §6.3. Its methods panic with a
// *syntaxError, which the function parse recovers and returns.
type parser struct {
	file   string
	tokens []token
	at     int
	spec   *spec
	// placeholders counts the types that are defined inside declarations.
	placeholders int
}

func parse(file string, text []byte) (s *spec, err error) {
	tokens, err := tokenize(file, text)
	if err != nil {
		return nil, err
	}
	p := &parser{file: file, tokens: tokens, spec: &spec{file: file}}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			s, err = nil, e
		}
	}()
	for p.peek().kind != tokenEOF {
		p.definition()
	}
	return p.spec, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != tokenEOF {
		p.at++
	}
	return t
}

func (p *parser) fail(line int, format string, a ...any) {
	panic(&syntaxError{p.file, line, fmt.Sprintf(format, a...)})
}

func (p *parser) accept(text string) bool {
	if t := p.peek(); t.kind != tokenEOF && t.text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) token {
	t := p.take()
	if t.text != text {
		p.fail(t.line, "%q where %q was expected", t.text, text)
	}
	return t
}

// keywords has the words that cannot be names (RFC 4506 §6.4 note 1).
var keywords = map[string]bool{
	"bool": true, "case": true, "const": true, "default": true, "double": true,
	"quadruple": true, "enum": true, "float": true, "hyper": true, "int": true,
	"opaque": true, "string": true, "struct": true, "switch": true,
	"typedef": true, "union": true, "unsigned": true, "void": true,
	"program": true, "version": true,
}

func (p *parser) name() token {
	t := p.take()
	if t.kind != tokenName || keywords[t.text] {
		p.fail(t.line, "%q where a name was expected", t.text)
	}
	return t
}

// startHeader returns a header with the line and the comments of t, the first token of a
// definition.
func startHeader(t token) header {
	return header{line: t.line, doc: t.doc, notes: t.notes}
}

func (p *parser) define(d definition) { p.spec.definitions = append(p.spec.definitions, d) }

func (p *parser) definition() {
	h := startHeader(p.peek())
	switch t := p.take(); t.text {
	case "const":
		h.name = p.name().text
		p.expect("=")
		v := p.number()
		p.expect(";")
		p.define(&constDef{h, v})
	case "typedef":
		inline := len(p.spec.definitions)
		d := p.declaration("")
		d.notes = h.notes
		p.expect(";")
		if h.name = d.name; d.kind == declVoid {
			p.fail(h.line, "typedef of void")
		}
		if len(p.spec.definitions) > inline && d.kind == declPlain {
			// A typedef of a new enum, struct or union defines that type (RFC 4506 §4.18).
			*p.spec.definitions[len(p.spec.definitions)-1].head() = h
			break
		}
		p.define(&typedefDef{h, d})
	case "enum":
		h.name = p.name().text
		p.define(&enumDef{h, p.enumBody()})
		p.expect(";")
	case "struct":
		h.name = p.name().text
		p.define(&structDef{h, p.structBody(h.name)})
		p.expect(";")
	case "union":
		h.name = p.name().text
		u := &unionDef{header: h}
		p.unionBody(u)
		p.define(u)
		p.expect(";")
	case "program":
		h.name = p.name().text
		p.define(p.program(h))
	default:
		p.fail(t.line, "%q where a definition was expected", t.text)
	}
}

func (p *parser) number() value {
	t := p.take()
	if t.kind != tokenNumber {
		p.fail(t.line, "%q where a number was expected", t.text)
	}
	n, err := strconv.ParseInt(t.text, 0, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(t.text, 0, 64)
		if uerr != nil {
			p.fail(t.line, "%q is not a number", t.text)
		}
		n = int64(u)
	}
	return value{text: t.text, number: n, line: t.line}
}

func (p *parser) value() value {
	if p.peek().kind == tokenNumber {
		return p.number()
	}
	t := p.name()
	return value{name: t.text, line: t.line}
}

func (p *parser) enumBody() []enumMember {
	p.expect("{")
	var members []enumMember
	for {
		h := startHeader(p.peek())
		h.name = p.name().text
		p.expect("=")
		members = append(members, enumMember{h, p.value()})
		if p.accept("}") {
			return members
		}
		p.expect(",")
	}
}

func (p *parser) structBody(owner string) []*declaration {
	p.expect("{")
	var fields []*declaration
	for {
		fields = append(fields, p.declaration(owner))
		p.expect(";")
		if p.accept("}") {
			return fields
		}
	}
}

func (p *parser) unionBody(u *unionDef) {
	p.expect("switch")
	p.expect("(")
	u.discriminant = p.declaration(u.name)
	p.expect(")")
	p.expect("{")
	for !p.accept("}") {
		a := new(arm)
		if p.accept("default") {
			if u.otherwise != nil {
				p.fail(p.peek().line, "second default arm")
			}
			u.otherwise = a
			p.expect(":")
		} else {
			for len(a.cases) == 0 || p.peek().text == "case" {
				p.expect("case")
				a.cases = append(a.cases, p.value())
				p.expect(":")
			}
			u.arms = append(u.arms, a)
		}
		a.decl = p.declaration(u.name)
		p.expect(";")
	}
	if len(u.arms) == 0 {
		p.fail(u.line, "union %s has no case", u.name)
	}
}

// declaration reads one declaration. owner is the name of the type that contains the declaration.
// The names of types that are defined inside the declaration begin with owner.
func (p *parser) declaration(owner string) *declaration {
	first := p.peek()
	d := &declaration{header: startHeader(first)}
	inline := len(p.spec.definitions)
	d.spec = p.typeSpec()
	if d.spec.builtin == builtinVoid {
		d.kind = declVoid
		return d
	}
	if p.accept("*") {
		d.kind = declOptional
	}
	d.name = p.name().text
	p.nameInline(inline, d, owner)
	if d.kind == declOptional {
		if d.spec.builtin == builtinOpaque || d.spec.builtin == builtinString {
			p.fail(d.line, "optional %s needs a typedef", d.name)
		}
		return d
	}
	switch {
	case p.accept("["):
		d.kind = declFixedArray
		v := p.value()
		d.bound = &v
		p.expect("]")
	case p.accept("<"):
		d.kind = declVarArray
		if !p.accept(">") {
			v := p.value()
			d.bound = &v
			p.expect(">")
		}
	}
	switch d.spec.builtin {
	case builtinString:
		if d.kind != declVarArray {
			p.fail(d.line, "string %s is not of variable length", d.name)
		}
	case builtinOpaque:
		if d.kind == declPlain {
			p.fail(d.line, "opaque %s has no length", d.name)
		}
	}
	return d
}

// nameInline gives names to the types that are defined inside the declaration d: d's own type, and
// the types inside that. So far their names are placeholders. Their definitions are at the end of
// p.spec.definitions; the parameter from is the index of the first.
func (p *parser) nameInline(from int, d *declaration, owner string) {
	inline := p.spec.definitions[from:]
	if len(inline) == 0 {
		return
	}
	placeholder := d.spec.name
	name := d.name
	if owner != "" {
		name = owner + "_" + d.name
	}
	rename := func(s *string) {
		if after, ok := strings.CutPrefix(*s, placeholder); ok {
			*s = name + after
		}
	}
	rename(&d.spec.name)
	for _, def := range inline {
		rename(&def.head().name)
		_ = declarations(def, func(within *declaration) error {
			rename(&within.spec.name)
			return nil
		})
	}
}

func (p *parser) typeSpec() typeSpec {
	t := p.take()
	s := typeSpec{line: t.line}
	switch t.text {
	case "unsigned":
		switch {
		case p.accept("hyper"):
			s.builtin = builtinUhyper
		default:
			p.accept("int")
			s.builtin = builtinUint
		}
	case "enum":
		s.name = p.inline(t, func(h header) definition { return &enumDef{h, p.enumBody()} })
	case "struct":
		s.name = p.inline(t, func(h header) definition { return &structDef{h, p.structBody(h.name)} })
	case "union":
		s.name = p.inline(t, func(h header) definition {
			u := &unionDef{header: h}
			p.unionBody(u)
			return u
		})
	default:
		if b, ok := builtinNames[t.text]; ok {
			s.builtin = b
			break
		}
		if t.kind != tokenName || keywords[t.text] {
			p.fail(t.line, "%q where a type was expected", t.text)
		}
		s.name = t.text
	}
	return s
}

// inline reads an enum, struct or union specifier after its keyword, and returns the name of the
// type. The specifier is the name of a type defined elsewhere, or a body. The type of a body gets a
// placeholder as its name, until the name of the declaration is known.
func (p *parser) inline(t token, body func(header) definition) string {
	if next := p.peek(); next.kind == tokenName && next.text != "switch" {
		return p.take().text
	}
	p.placeholders++
	placeholder := fmt.Sprintf("(%d)", p.placeholders)
	p.define(body(header{name: placeholder, line: t.line}))
	return placeholder
}

var builtinNames = map[string]builtin{
	"int": builtinInt, "hyper": builtinHyper, "float": builtinFloat,
	"double": builtinDouble, "quadruple": builtinQuadruple, "bool": builtinBool,
	"opaque": builtinOpaque, "string": builtinString, "void": builtinVoid,
}
