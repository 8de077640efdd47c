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

// checkSizes computes the size of every type. It returns an error for a recursive type.
func (m *model) checkSizes() error {
	for _, d := range m.spec.definitions {
		if _, ok := m.types[d.head().name]; ok {
			if _, err := m.sizeOf(d.head().name, d.head().line); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeOf returns the size of a defined type. name is the type's XDR name, and line the line number
// for an error.
func (m *model) sizeOf(name string, line int) (size, error) {
	if s, ok := m.sizes[name]; ok {
		return s, nil
	}
	if m.sizing[name] {
		return size{}, m.errorf(line, "type %s contains itself other than as a linked list", name)
	}
	m.sizing[name] = true
	defer delete(m.sizing, name)
	var s size
	var err error
	switch d := m.types[name].(type) {
	case *enumDef:
		s = fixed(4)
	case *typedefDef:
		s, err = m.sizeOfDeclaration(d.decl)
	case *structDef:
		for _, f := range m.valueFields(d) {
			var fs size
			if fs, err = m.sizeOfDeclaration(f); err != nil {
				break
			}
			s = s.plus(fs)
		}
	case *unionDef:
		s, err = m.sizeOfUnion(d)
	}
	if err == nil {
		m.sizes[name] = s
	}
	return s, err
}

func (m *model) sizeOfUnion(u *unionDef) (size, error) {
	var s size
	for i, a := range u.everyArm() {
		as, err := m.sizeOfDeclaration(a.decl)
		if err != nil {
			return s, err
		}
		if i == 0 {
			s = as
		}
		s = s.or(as)
	}
	return s.plus(fixed(4)), nil
}

func (m *model) sizeOfDeclaration(d *declaration) (size, error) {
	if d.kind == declVoid {
		return fixed(0), nil
	}
	bound := int64(1<<32 - 1)
	if d.bound != nil {
		bound, _ = m.number(*d.bound)
	}
	if d.isBytes() {
		padded := (bound + 3) &^ 3
		switch {
		case d.kind == declFixedArray:
			return fixed(padded), nil
		case d.notes.ddp:
			return size{4, plus(4, times(padded, 1)), 4}, nil
		}
		return size{4, plus(4, times(padded, 1)), plus(4, times(padded, 1))}, nil
	}
	if name := m.optionalOf(d); name != "" && m.nodes[name] {
		return size{4, unbounded, unbounded}, nil
	}
	var s size
	if d.spec.builtin == builtinNone {
		var err error
		if s, err = m.sizeOf(d.spec.name, d.line); err != nil {
			return s, err
		}
	} else {
		s = fixed(scalars[d.spec.builtin].size)
	}
	switch d.kind {
	case declOptional:
		s = size{4, plus(4, s.max), plus(4, s.reduced)}
	case declFixedArray:
		s = size{times(s.min, bound), times(s.max, bound), times(s.reduced, bound)}
	case declVarArray:
		s = size{4, plus(4, times(s.max, bound)), plus(4, times(s.reduced, bound))}
	}
	return s, nil
}

// valueFields returns d's fields. For a list element, it leaves out the link to the next element.
func (m *model) valueFields(d *structDef) []*declaration {
	if m.nodes[d.name] {
		return d.fields[:len(d.fields)-1]
	}
	return d.fields
}
