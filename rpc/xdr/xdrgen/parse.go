package main

import (
	"bytes"
	"strconv"
	"strings"
	"text/scanner"
)

// parser is a recursive-descent parser for the grammar of RFC 4506 §6.3.
type parser struct {
	tokens []token // the ones not read; the last is scanner.EOF
}

// parse returns the definitions in the order of the file.
func parse(tokens []token) (all []definition) {
	p := &parser{tokens}
	for p.peek().kind != scanner.EOF {
		all = append(all, p.definition())
	}
	return all
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != scanner.EOF {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek().text != text {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(text string) {
	if t := p.take(); t.text != text {
		fail(t.line, "%q where %q was expected", t.text, text)
	}
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
	if t.kind != scanner.Ident || keywords[t.text] {
		fail(t.line, "%q where a name was expected", t.text)
	}
	return t
}

// startHeader returns a header with the line and the comments of t, the first token of a
// definition.
func startHeader(t token) header {
	return header{line: t.line, doc: t.doc, notes: t.notes}
}

func (p *parser) definition() definition {
	h := startHeader(p.peek())
	keyword := p.take()
	if keyword.text == "typedef" {
		d := p.declaration()
		d.notes = h.notes
		p.expect(";")
		if h.name = d.name; d.kind == declVoid {
			fail(h.line, "typedef of void")
		}
		return &typedefDef{h, d}
	}
	read, ok := map[string]func() definition{
		"const":   func() definition { return &constDef{h, p.assigned()} },
		"enum":    func() definition { return &enumDef{h, p.enumBody()} },
		"struct":  func() definition { return &structDef{h, p.structBody()} },
		"union":   func() definition { return p.union(h) },
		"program": func() definition { return p.program(h) },
	}[keyword.text]
	if !ok {
		fail(keyword.line, "%q where a definition was expected", keyword.text)
	}
	h.name = p.name().text
	d := read()
	p.expect(";")
	return d
}

// assigned reads "=" and a number.
func (p *parser) assigned() value {
	p.expect("=")
	return p.number()
}

func (p *parser) number() value {
	minus := p.accept("-")
	t := p.take()
	if t.kind != scanner.Int {
		fail(t.line, "%q where a number was expected", t.text)
	}
	if minus {
		t.text = "-" + t.text
	}
	n, err := strconv.ParseInt(t.text, 0, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(t.text, 0, 64)
		if uerr != nil {
			fail(t.line, "%q is not a number", t.text)
		}
		n = int64(u)
	}
	return value{text: t.text, number: n, line: t.line}
}

func (p *parser) value() value {
	if kind := p.peek().kind; kind == scanner.Int || kind == '-' {
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

func (p *parser) structBody() []*declaration {
	p.expect("{")
	var fields []*declaration
	for {
		fields = append(fields, p.declaration())
		p.expect(";")
		if p.accept("}") {
			return fields
		}
	}
}

// union reads the rest of a union definition after its name.
func (p *parser) union(h header) *unionDef {
	u := &unionDef{header: h}
	p.expect("switch")
	p.expect("(")
	u.discriminant = p.declaration()
	p.expect(")")
	p.expect("{")
	var otherwise []*arm
	for !p.accept("}") {
		a := new(arm)
		if p.accept("default") {
			if otherwise != nil {
				fail(p.peek().line, "second default arm")
			}
			otherwise = []*arm{a}
			p.expect(":")
		} else {
			for len(a.cases) == 0 || p.peek().text == "case" {
				p.expect("case")
				a.cases = append(a.cases, p.value())
				p.expect(":")
			}
			u.arms = append(u.arms, a)
		}
		a.decl = p.declaration()
		p.expect(";")
	}
	if len(u.arms) == 0 {
		fail(u.line, "union %s has no case", u.name)
	}
	u.arms = append(u.arms, otherwise...)
	return u
}

func (p *parser) declaration() *declaration {
	d := &declaration{header: startHeader(p.peek())}
	d.spec = p.typeSpec()
	if d.spec.builtin == builtinVoid {
		d.kind = declVoid
		return d
	}
	optional := p.accept("*")
	d.name = p.name().text
	if optional {
		d.kind = declOptional
		if d.isBytes() {
			fail(d.line, "optional %s needs a typedef", d.name)
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
			fail(d.line, "string %s is not of variable length", d.name)
		}
	case builtinOpaque:
		if d.kind == declPlain {
			fail(d.line, "opaque %s has no length", d.name)
		}
	}
	return d
}

func (p *parser) typeSpec() typeSpec {
	t := p.take()
	s := typeSpec{line: t.line}
	switch b := builtin(t.text); b {
	case "unsigned":
		s.builtin = builtinUint
		if p.accept("hyper") {
			s.builtin = builtinUhyper
		} else {
			p.accept("int")
		}
	case "enum", "struct", "union":
		s.name = p.name().text
	case builtinOpaque, builtinString, builtinVoid:
		s.builtin = b
	default:
		if scalars[b].size > 0 {
			s.builtin = b
			break
		}
		if t.kind != scanner.Ident || keywords[t.text] {
			fail(t.line, "%q where a type was expected", t.text)
		}
		s.name = t.text
	}
	return s
}

// program reads the rest of a program definition after its name (RFC 5531 §12.2).
func (p *parser) program(h header) *programDef {
	d := &programDef{header: h}
	p.expect("{")
	for !p.accept("}") {
		d.versions = append(d.versions, p.version())
	}
	d.number = p.assigned()
	return d
}

func (p *parser) version() *versionDef {
	d := &versionDef{header: startHeader(p.peek())}
	p.expect("version")
	d.name = p.name().text
	p.expect("{")
	for !p.accept("}") {
		d.procedures = append(d.procedures, p.procedure())
	}
	d.number = p.assigned()
	p.expect(";")
	return d
}

func (p *parser) procedure() *procedureDef {
	d := &procedureDef{header: startHeader(p.peek())}
	d.result = p.typeSpec()
	d.name = p.name().text
	p.expect("(")
	for {
		if s := p.typeSpec(); s.builtin != builtinVoid {
			d.args = append(d.args, s)
		}
		if p.accept(")") {
			break
		}
		p.expect(",")
	}
	d.number = p.assigned()
	p.expect(";")
	return d
}

// A token is a name, a number or a punctuation mark, with the comments before it. kind is
// scanner.Ident, scanner.Int, scanner.EOF or the punctuation mark.
type token struct {
	kind  rune
	text  string
	line  int
	notes notes
	doc   string
}

// tokenize splits text into tokens by the rules of RFC 4506 §6.2. It skips lines that begin with %,
// because these are for the C output of rpcgen. The last token is scanner.EOF.
func tokenize(text []byte) (tokens []token) {
	var s scanner.Scanner
	s.Init(bytes.NewReader(text))
	s.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanComments
	s.Error = func(*scanner.Scanner, string) {} // malformed numbers are reported by the parser
	s.IsIdentRune = func(c rune, i int) bool {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || i > 0 && (c == '_' || '0' <= c && c <= '9')
	}
	var t token
	commented := 0 // the line at which the last comment ends
	for {
		t.kind = s.Scan()
		t.line, t.text = s.Position.Line, s.TokenText()
		if t.line > commented+1 {
			t.doc = "" // an empty line separates a comment from the next token
		}
		switch {
		case t.kind == scanner.Comment:
			commented = s.Pos().Line
			t.comment()
			continue
		case t.kind == '%' && s.Position.Column == 1:
			for c := s.Next(); c != '\n' && c != scanner.EOF; c = s.Next() {
			}
			commented = s.Pos().Line - 1
			continue
		case t.kind > 0 && !strings.ContainsRune("{}()[]<>*=,;:-", t.kind):
			fail(t.line, "character %q has no meaning", t.kind)
		}
		tokens = append(tokens, t)
		if t.kind == scanner.EOF {
			return tokens
		}
		t = token{}
	}
}

// comment stores the comment t.text, which is before the token t, in t. A comment that starts with
// "@" is an annotation. Any other comment of the form /* text */ becomes t.doc.
func (t *token) comment() {
	body, ok := strings.CutPrefix(t.text, "/*")
	if !ok {
		return
	}
	if body, ok = strings.CutSuffix(body, "*/"); !ok {
		fail(t.line, "comment without an end")
	}
	if note, ok := strings.CutPrefix(body, "@"); ok {
		t.notes.add(note, t.line)
		return
	}
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "*"))
		if line != "" {
			lines = append(lines, line)
		}
	}
	t.doc = strings.Join(lines, "\n")
}
