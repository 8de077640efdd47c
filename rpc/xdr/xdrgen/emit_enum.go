package main

import (
	"fmt"
	"slices"
	"strings"
)

func (e *emitter) emitEnum(d *enumDef) {
	name := goName(&d.header)
	e.printf("%s\ntype %s int32\n\n", documentation(name, &d.header, "enum"), name)
	e.printf("// Values of %s.\nconst (\n", name)
	var table strings.Builder
	var values []int64
	for _, member := range d.members {
		n := e.m.values[member.name]
		for line := range strings.Lines(member.doc) {
			e.printf("// %s\n", strings.TrimSpace(line))
		}
		e.printf("%s %s = %d\n", goName(&member.header), name, n)
		if !slices.Contains(values, n) {
			values = append(values, n)
			fmt.Fprintf(&table, "%s: %q,\n", goName(&member.header), member.name)
		}
	}
	e.printf(")\n\n")
	e.printf("var names%s = map[%s]string{\n%s}\n\n", name, name, table.String())
	e.printf("// String returns the name that the definition gives v.\nfunc (v %s) String() string {\n"+
		"if s, ok := names%s[v]; ok {\nreturn s\n}\n"+
		"return \"%s(\" + strconv.Itoa(int(v)) + \")\"\n}\n\n", name, name, d.name)
	e.printf("// Known reports whether the definition has a name for v.\nfunc (v %s) Known() bool {\nreturn %s\n}\n\n",
		name, ranges(values))
	if d.notes.open {
		e.printf("// Decode reads v from d, even if the definition has no name for it. d.Err returns the error, if any.\n"+
			"func (v *%s) Decode(d *xdr.Decoder) { *v = %s(d.Int32()) }\n\n", name, name)
	} else {
		e.printf("// Decode reads v from d. d.Err returns the error, if any: a value without a name is an error.\n"+
			"func (v *%s) Decode(d *xdr.Decoder) {\n*v = %s(d.Int32())\n"+
			"if !v.Known() {\nd.Fail(xdr.ErrBadValue)\n}\n}\n\n", name, name)
	}
	e.printf("// Encode appends v to w.\nfunc (v *%s) Encode(w *xdr.Writer) { w.Int32(int32(*v)) }\n\n", name)
	e.emitSizes(d.name, name)
}

// ranges returns a Go condition that is true if v is one of values.
func ranges(values []int64) string {
	values = slices.Clone(values)
	slices.Sort(values)
	var terms []string
	for i := 0; i < len(values); {
		j := i
		for j+1 < len(values) && values[j+1] == values[j]+1 {
			j++
		}
		if i == j {
			terms = append(terms, fmt.Sprintf("v == %d", values[i]))
		} else {
			terms = append(terms, fmt.Sprintf("%d <= v && v <= %d", values[i], values[j]))
		}
		i = j + 1
	}
	return strings.Join(terms, " ||\n")
}
