package main

import (
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
