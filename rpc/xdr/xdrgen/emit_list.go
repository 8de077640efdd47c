package main

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
