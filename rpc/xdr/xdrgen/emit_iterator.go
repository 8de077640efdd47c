package main

import (
	"fmt"
	"strconv"
	"strings"
)

// iteratorType adds the iterator type for the array d to the queue, and returns its name.
func (e *emitter) iteratorType(d *declaration, owner, limit string, elem shape) string {
	name := owner + goName(&d.header)
	// The variable skip is code that skips all elements, and next is code that decodes one element
	// into *elem.
	skip := "var elem {{E}}\nfor i := 0; i < v.left && d.Err() == nil; i++ {\n" + elem.decode("elem") + "\n}"
	next := elem.decode("elem")
	if s, ok := elem.(scalar); ok {
		next = elem.decode("*elem")
		skip = fmt.Sprintf("d.Skip(v.left * %d)", s.size)
		if s.name == "bool" { // skip decodes each element, because a word other than 0 and 1 is not a valid bool
			skip = "for i := 0; i < v.left && d.Err() == nil; i++ {\nd.Bool()\n}"
		}
	}
	e.later(name, func() {
		e.expand(strings.NewReplacer(
			"{{LIMIT}}", limit,
			"{{MIN}}", strconv.FormatInt(e.minOf(d.spec), 10),
			"{{SKIP}}", skip,
			"{{NEXT}}", next,
			"{{ENCODE}}", elem.encode("elem"),
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
	v.left = d.Count({{LIMIT}}, {{MIN}})
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
`), name, elem.goType())
	})
	return name
}

// expand writes text, with {{N}} replaced by name and {{E}} by elem.
func (e *emitter) expand(text, name, elem string) {
	e.out.WriteString(strings.NewReplacer("{{N}}", name, "{{E}}", elem).Replace(text))
	e.out.WriteString("\n")
}
