package main

import (
	"fmt"
	"strconv"
	"strings"
)

func (e *emitter) emitStruct(d *structDef) {
	name := goName(&d.header)
	fields := e.m.valueFields(d)
	what := "struct"
	if e.m.nodes[d.name] {
		what = "list element"
	}
	e.printf("%s\ntype %s struct {\n", documentation(name, &d.header, what), name)
	var decode, encode []string
	for _, f := range fields {
		s := e.shapeOf(f, name)
		e.emitField(f, s, e.maxTag(f))
		decode = append(decode, with(s.decode, "v."+goName(&f.header)))
		encode = append(encode, with(s.encode, "v."+goName(&f.header)))
	}
	e.printf("}\n\n")
	e.emitMethods(name, strings.Join(decode, "\n"), strings.Join(encode, "\n"))
	if at := e.m.splitField(d); at >= 0 {
		s := "v." + goName(&fields[at].header)
		head, tail := encode[:at:at], encode[at+1:]
		if !e.m.isIterator(fields[at]) {
			head = append(head, s+".EncodeHead(w)")
			tail = append([]string{s + ".EncodeTail(w)"}, tail...)
		}
		e.emitHeadTail(name, strings.Join(head, "\n"), strings.Join(tail, "\n"))
	}
	e.emitSizes(d.name, name)
}

// emitField writes one field of a struct type. tag is the content of its struct tag, or "".
func (e *emitter) emitField(f *declaration, s shape, tag string) {
	for line := range strings.Lines(f.doc) {
		e.printf("// %s\n", strings.TrimSpace(line))
	}
	if tag != "" {
		tag = " `xdr:\"" + tag + "\"`"
	}
	e.printf("%s %s%s\n", goName(&f.header), s.goType, tag)
}

// maxTag returns the struct tag for a counted item whose definition sets a largest length. For any
// other item, it returns "".
func (e *emitter) maxTag(d *declaration) string {
	d = e.m.plain(d)
	if d.kind != declVarArray || d.bound == nil {
		return ""
	}
	return "max=" + strconv.FormatInt(e.m.number(*d.bound), 10)
}

// emitHeadTail writes the methods EncodeHead and EncodeTail. head and tail are the statements
// before and after the type's only iterator.
func (e *emitter) emitHeadTail(name, head, tail string) {
	const text = "// Encode%[2]s appends the fields of v %[3]s its list to w.\n" +
		"func (v *%[1]s) Encode%[2]s(w *xdr.Writer) %[4]s\n\n"
	e.printf(text, name, "Head", "before", body(head))
	e.printf(text, name, "Tail", "after", body(tail))
}

// splitField returns the index of the field that is, or contains, the only iterator of d. It
// returns -1 if d has no iterator, or several.
func (m *model) splitField(d *structDef) int {
	at := -1
	for i, f := range m.valueFields(d) {
		if m.iterators(f) > 0 {
			if at >= 0 || m.iterators(f) > 1 {
				return -1
			}
			at = i
		}
	}
	return at
}

// isIterator reports whether d is decoded as an iterator.
func (m *model) isIterator(d *declaration) bool {
	d = m.plain(d)
	return m.nodes[m.optionalOf(d)] || d.kind == declVarArray && !d.isBytes() && d.bound == nil
}

// iterators returns the number of iterators in d. A result of 2 or more only means that there are
// several.
func (m *model) iterators(d *declaration) int {
	if d.kind == declVoid {
		return 0
	}
	if m.isIterator(d) {
		return 1
	}
	d = m.plain(d)
	n := 0
	switch t := m.types[d.spec.name].(type) {
	case *structDef:
		for _, f := range m.valueFields(t) {
			n += m.iterators(f)
		}
	case *unionDef:
		for _, a := range t.arms {
			n = max(n, m.iterators(a.decl))
		}
	}
	if d.kind != declPlain && n > 0 {
		return 2
	}
	return n
}

func (e *emitter) emitUnion(d *unionDef) {
	name := goName(&d.header)
	e.printf("%s\n// Only the arm that %s selects has meaning.\n", documentation(name, &d.header, "union"), goName(&d.discriminant.header))
	e.printf("type %s struct {\n", name)
	disc := e.shapeOf(d.discriminant, name)
	discAt := "v." + goName(&d.discriminant.header)
	e.emitField(d.discriminant, disc, e.switchTag(d))

	var decode, encode, head, tail strings.Builder
	fmt.Fprintf(&decode, "*v = %s{}\n%s\nswitch %s {\n", name, with(disc.decode, discAt), discAt)
	for _, b := range []*strings.Builder{&encode, &head} {
		fmt.Fprintf(b, "%s\nswitch %s {\n", with(disc.encode, discAt), discAt)
	}
	fmt.Fprintf(&tail, "switch %s {\n", discAt)
	splits := false
	for _, a := range d.arms {
		label := "default:\n"
		if len(a.cases) > 0 {
			label = "case " + e.caseLabels(d, a) + ":\n"
		}
		for _, b := range []*strings.Builder{&decode, &encode, &head} {
			b.WriteString(label)
		}
		if a.decl.kind == declVoid {
			continue
		}
		s := e.shapeOf(a.decl, name)
		at := "v." + goName(&a.decl.header)
		e.emitField(a.decl, s, strings.TrimSpace(e.armTag(d, a)+" "+e.maxTag(a.decl)))
		decode.WriteString(with(s.decode, at) + "\n")
		encode.WriteString(with(s.encode, at) + "\n")
		switch n := e.m.iterators(a.decl); {
		case n == 1 && e.m.isIterator(a.decl):
			splits = true
		case n == 1:
			splits = true
			head.WriteString(at + ".EncodeHead(w)\n")
			tail.WriteString(label + at + ".EncodeTail(w)\n")
		default:
			head.WriteString(with(s.encode, at) + "\n")
		}
	}
	if !e.exhaustive(d) {
		decode.WriteString("default:\nd.Fail(xdr.ErrBadValue)\n")
		encode.WriteString("default:\nw.Fail()\n")
		head.WriteString("default:\nw.Fail()\n")
	}
	for _, b := range []*strings.Builder{&decode, &encode, &head, &tail} {
		b.WriteString("}")
	}
	e.printf("}\n\n")
	e.emitMethods(name, decode.String(), encode.String())
	if splits && e.m.iterators(&declaration{kind: declPlain, spec: typeSpec{name: d.name}}) == 1 {
		if strings.Count(tail.String(), "\n") == 1 { // all arms are void
			tail.Reset()
		}
		e.emitHeadTail(name, head.String(), tail.String())
	}
	e.emitSizes(d.name, name)
}

// caseLabels returns the case list of arm a, as Go values of the discriminant's type.
func (e *emitter) caseLabels(d *unionDef, a *arm) string {
	enum, kind := e.m.discriminant(d)
	var labels []string
	for _, c := range a.cases {
		label := e.m.goValue(c)
		if kind == builtinBool {
			label = strconv.FormatBool(e.m.number(c) == 1)
		} else if of := e.m.constants[c.name].enum; of != nil && of != enum {
			label = e.shapeOf(d.discriminant, "").goType + "(" + label + ")"
		}
		labels = append(labels, label)
	}
	return strings.Join(labels, ", ")
}

// switchTag returns the discriminant's struct tag, which lists the cases of the void arms.
func (e *emitter) switchTag(d *unionDef) string {
	tag := "switch"
	for _, a := range d.arms {
		if a.decl.kind == declVoid {
			tag += " " + e.armTag(d, a)
		}
	}
	return tag
}

// armTag returns the struct tag of arm a's field: the numbers of its cases, or "default".
func (e *emitter) armTag(d *unionDef, a *arm) string {
	if len(a.cases) == 0 {
		return "default"
	}
	var cases []string
	for _, c := range a.cases {
		cases = append(cases, strconv.FormatInt(e.m.number(c), 10))
	}
	return "case=" + strings.Join(cases, ",")
}

// exhaustive reports whether every value of the discriminant has an arm: d has a default arm, or
// its discriminant is a bool and both values have an arm.
func (e *emitter) exhaustive(d *unionDef) bool {
	covered := map[int64]bool{}
	for _, a := range d.arms {
		if len(a.cases) == 0 {
			return true
		}
		for _, c := range a.cases {
			covered[e.m.number(c)] = true
		}
	}
	_, kind := e.m.discriminant(d)
	return kind == builtinBool && covered[0] && covered[1]
}
