package main

import (
	"fmt"
	"strconv"
	"strings"
)

// iteratorType adds the iterator type for the array d to the queue, and returns its name.
func (e *emitter) iteratorType(d *declaration, owner string, elem shape) string {
	name := owner + goName(&d.header)
	// The variable skip is code that skips all elements, and next is code that decodes one element
	// into *elem.
	skip := "var elem {{E}}\nfor i := 0; i < v.left && d.Err() == nil; i++ {\n" + with(elem.decode, "elem") + "\n}"
	next := with(elem.decode, "elem")
	if size := elem.scalarSize(); size > 0 {
		next = with(elem.decode, "*elem")
		skip = fmt.Sprintf("d.Skip(v.left * %d)", size)
		if elem.goType == "bool" { // skip decodes each element, because a word other than 0 and 1 is not a valid bool
			skip = "for i := 0; i < v.left && d.Err() == nil; i++ {\nd.Bool()\n}"
		}
	}
	e.later(name, func() {
		e.expand(strings.NewReplacer(
			"{{MIN}}", strconv.FormatInt(e.minOf(d.spec), 10),
			"{{SKIP}}", skip,
			"{{NEXT}}", next,
			"{{ENCODE}}", with(elem.encode, "elem"),
		).Replace(`
// {{N}} is an encoded array of {{E}}, whose elements Next decodes one by one.
// The zero value is the empty array. To encode an array, write its length with
// Writer.Uint32 and then its elements.
type {{N}} struct {
	left int
	at   xdr.Decoder
}

// Decode checks a whole array in d, and moves d behind it. Next then returns the
// first element. Decode copies nothing: Next reads from the memory of d.
func (v *{{N}}) Decode(d *xdr.Decoder) {
	v.left = d.Count(xdr.NoLimit, {{MIN}})
	v.at = *d
	{{SKIP}}
	if d.Err() != nil {
		*v = {{N}}{}
	}
}

// Len returns the number of elements that Next has not returned yet.
func (v *{{N}}) Len() int { return v.left }

// Next decodes the next element into elem. It returns false if there is none.
func (v *{{N}}) Next(elem *{{E}}) bool {
	if v.left == 0 {
		return false
	}
	v.left--
	d := &v.at
	{{NEXT}}
	return d.Err() == nil
}

// Encode appends an array to w: the elements that Next has not returned yet.
// Next continues as if Encode had not been called.
func (v *{{N}}) Encode(w *xdr.Writer) {
	rest := *v
	w.Uint32(uint32(rest.left))
	var elem {{E}}
	for rest.Next(&elem) {
		{{ENCODE}}
	}
}
`), name, elem.goType)
	})
	return name
}

// expand writes text, with {{N}} replaced by name and {{E}} by elem.
func (e *emitter) expand(text, name, elem string) {
	e.out.WriteString(strings.NewReplacer("{{N}}", name, "{{E}}", elem).Replace(text))
	e.out.WriteString("\n")
}

// listType adds the iterator type for a linked list to the queue, and returns its name. The
// argument node is the XDR name of the type of the list's elements.
func (e *emitter) listType(node string) string {
	d := e.m.types[node].(*structDef)
	elem := goName(&d.header)
	name := elem + "List"
	e.later(name, func() {
		e.expand(`
// {{N}} is an encoded linked list of {{E}}, whose elements Next decodes one by one.
// The zero value is the empty list.
type {{N}} struct{ at xdr.Decoder }

// Decode checks a whole list in d, and moves d behind it. Next then returns the
// first element. Decode copies nothing: Next reads from the memory of d.
func (v *{{N}}) Decode(d *xdr.Decoder) {
	v.at = *d
	var elem {{E}}
	for d.Bool() {
		elem.Decode(d)
	}
	if d.Err() != nil {
		v.at = xdr.Decoder{}
	}
}

// Next decodes the next element into elem. It returns false if there is none.
func (v *{{N}}) Next(elem *{{E}}) bool {
	if !v.at.Bool() {
		v.at = xdr.Decoder{}
		return false
	}
	elem.Decode(&v.at)
	return v.at.Err() == nil
}

// Encode appends a list to w: the elements that Next has not returned yet.
// Next continues as if Encode had not been called.
func (v *{{N}}) Encode(w *xdr.Writer) {
	rest := *v
	var elem {{E}}
	for rest.Next(&elem) {
		Put{{E}}(w, &elem)
	}
	End{{N}}(w)
}

// Put{{E}} appends elem to a list that is being written to w.
func Put{{E}}(w *xdr.Writer, elem *{{E}}) {
	w.Bool(true)
	elem.Encode(w)
}

// End{{N}} ends a list that is being written to w.
func End{{N}}(w *xdr.Writer) { w.Bool(false) }
`, name, elem)
		if e.m.splitField(d) >= 0 {
			e.expand(`
// Put{{E}}Head appends the part of elem before its own list to a list that is
// being written to w. elem.EncodeTail follows when that list has ended.
func Put{{E}}Head(w *xdr.Writer, elem *{{E}}) {
	w.Bool(true)
	elem.EncodeHead(w)
}
`, name, elem)
		}
	})
	return name
}

// optionalType adds the type for optional data of elem (RFC 4506 §4.19) to the queue, and returns
// its name.
func (e *emitter) optionalType(elem shape) string {
	t := elem.goType
	name := "Opt" + strings.ToUpper(t[:1]) + t[1:]
	e.later(name, func() {
		e.expand(`
// {{N}} is an optional {{E}}. Value is valid only if Present is true.
type {{N}} struct {
	Present bool `+"`xdr:\"switch case=0\"`"+`
	Value   {{E}} `+"`xdr:\"case=1\"`"+`
}
`, name, t)
		e.emitMethods(name,
			"*v = "+name+"{Present: d.Bool()}\nif v.Present {\n"+with(elem.decode, "v.Value")+"\n}",
			"w.Bool(v.Present)\nif v.Present {\n"+with(elem.encode, "v.Value")+"\n}")
	})
	return name
}
