package main

import (
	"fmt"
	"strconv"
	"strings"
)

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
		} else if of := e.m.enumOf[c.name]; of != nil && of != enum {
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
