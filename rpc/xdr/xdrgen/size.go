package main

// size is the size of a type's encoding, in bytes.
type size struct {
	// min is the smallest size. With it, a decoder checks an array's count against the length of
	// the stream.
	min int64
	// max is the largest size, or unbounded.
	max int64
	// reduced is the largest size without the content and padding of DDP-eligible items, of which
	// only the counts are left (RFC 8166 §3.4.4), or unbounded.
	reduced int64
}

// unbounded means that the definition does not limit the size, or that the limit is above
// limitOfSizes.
const unbounded = -1

// limitOfSizes is the largest size that counts as bounded, because no RPC message is longer.
const limitOfSizes = 1<<31 - 1

func fixed(n int64) size { return size{n, n, n} }

func plus(a, b int64) int64 {
	if a == unbounded || b == unbounded || a+b > limitOfSizes {
		return unbounded
	}
	return a + b
}

func times(a, n int64) int64 {
	if n == 0 || a == 0 {
		return 0
	}
	if a == unbounded || n > limitOfSizes/a {
		return unbounded
	}
	return a * n
}

func most(a, b int64) int64 {
	if a == unbounded || b == unbounded {
		return unbounded
	}
	return max(a, b)
}

func (a size) plus(b size) size {
	return size{a.min + b.min, plus(a.max, b.max), plus(a.reduced, b.reduced)}
}

func (a size) or(b size) size {
	return size{min(a.min, b.min), most(a.max, b.max), most(a.reduced, b.reduced)}
}

// sizeOf returns the size of a defined type. name is the type's XDR name. It fails for a type that
// contains itself; line is the line number for that error.
func (m *model) sizeOf(name string, line int) size {
	if s, ok := m.sizes[name]; ok {
		return s
	}
	if m.sizing[name] {
		fail(line, "type %s contains itself other than as a linked list", name)
	}
	m.sizing[name] = true
	var s size
	switch d := m.types[name].(type) {
	case *enumDef:
		s = fixed(4)
	case *typedefDef:
		s = m.sizeOfDeclaration(d.decl)
	case *structDef:
		for _, f := range m.valueFields(d) {
			s = s.plus(m.sizeOfDeclaration(f))
		}
	case *unionDef:
		s = m.sizeOfDeclaration(d.arms[0].decl)
		for _, a := range d.arms[1:] {
			s = s.or(m.sizeOfDeclaration(a.decl))
		}
		s = s.plus(fixed(4))
	}
	m.sizes[name] = s
	return s
}

func (m *model) sizeOfDeclaration(d *declaration) size {
	if d.kind == declVoid {
		return fixed(0)
	}
	bound := int64(1<<32 - 1)
	if d.bound != nil {
		bound = m.number(*d.bound)
	}
	if d.isBytes() {
		padded := (bound + 3) &^ 3
		switch {
		case d.kind == declFixedArray:
			return fixed(padded)
		case d.notes.ddp:
			return size{4, plus(4, padded), 4}
		}
		return size{4, plus(4, padded), plus(4, padded)}
	}
	if m.nodes[m.optionalOf(d)] {
		return size{4, unbounded, unbounded}
	}
	s := fixed(scalars[d.spec.builtin].size)
	if d.spec.builtin == "" {
		s = m.sizeOf(d.spec.name, d.line)
	}
	switch d.kind {
	case declOptional:
		s = size{4, plus(4, s.max), plus(4, s.reduced)}
	case declFixedArray:
		s = size{times(s.min, bound), times(s.max, bound), times(s.reduced, bound)}
	case declVarArray:
		s = size{4, plus(4, times(s.max, bound)), plus(4, times(s.reduced, bound))}
	}
	return s
}

// valueFields returns d's fields. For a list element, it leaves out the link to the next element.
func (m *model) valueFields(d *structDef) []*declaration {
	if m.nodes[d.name] {
		return d.fields[:len(d.fields)-1]
	}
	return d.fields
}
