package main

import "strconv"

// shapeOf returns the shape of d. owner is the Go name of the type that contains d, or "" for the
// declaration of a typedef. If the shape needs another generated type, shapeOf adds that type to
// the emitter's queue.
func (e *emitter) shapeOf(d *declaration, owner string) shape {
	length := noLimit
	if d.bound != nil {
		length = e.lengthOf(*d.bound)
	}
	if d.isBytes() {
		switch {
		case d.kind == declFixedArray:
			return fixedBytes{length}
		case d.notes.ddp:
			return eligibleBytes{length}
		}
		return countedBytes{length}
	}
	if node := e.m.optionalOf(d); node != "" && e.m.nodes[node] {
		return generated{e.listType(node)}
	}
	elem := e.shapeOfSpec(d.spec)
	switch d.kind {
	case declFixedArray:
		return array{length, elem}
	case declVarArray:
		if d.bound == nil || d.notes.iterate {
			return generated{e.iteratorType(d, owner, length, elem)}
		}
		if n, _ := e.m.number(*d.bound); n == 1 { // the same encoding as optional data (RFC 4506 §4.19)
			return generated{e.optionalType(elem)}
		}
		return slice{length, elem, e.minOf(d.spec)}
	case declOptional:
		return generated{e.optionalType(elem)}
	}
	return elem
}

// shapeOfSpec returns the shape of one value of type s.
func (e *emitter) shapeOfSpec(s typeSpec) shape {
	if s.builtin == builtinQuadruple {
		return fixedBytes{"16"}
	}
	if s.builtin != builtinNone {
		return scalars[s.builtin]
	}
	d := e.m.types[s.name]
	if t, ok := d.(*typedefDef); ok && e.m.vanishes(t) {
		return e.shapeOf(t.decl, "")
	}
	return generated{goName(d.head())}
}

// lengthOf returns the Go expression for the length of an array: the Go name of a constant if v is
// the name of a const definition, otherwise a number.
func (e *emitter) lengthOf(v value) string {
	if e.constants[v.name] {
		return e.m.goValue(v)
	}
	n, _ := e.m.number(v)
	return strconv.FormatInt(n, 10)
}

// minOf returns the smallest size of a value of type s, in bytes.
func (e *emitter) minOf(s typeSpec) int64 {
	if s.builtin != builtinNone {
		return scalars[s.builtin].size
	}
	return e.m.sizes[s.name].min
}
