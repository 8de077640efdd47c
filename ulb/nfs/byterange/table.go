package byterange

import "math/rand/v2"

// A Table holds the locked ranges of a file, of all holders, so that a search for overlapping ranges visits
// few others. It is a treap ordered by the first bytes of the ranges. The zero value is empty.
type Table[O any] struct {
	root    *node[O]
	holders uint64 // number of holders that have got a number
}

// A Holder holds the ranges that one owner has locked in the file of one Table. Its locks replace each other.
type Holder[O any] struct {
	Owner O
	// Group, if not nil, is comparable and set before the first Lock. Locks of one Group do not conflict.
	Group  any
	ranges Set
	number uint64 // orders ranges that have the same first byte; 0 until the first Lock or Unlock
}

// Ranges returns the locked ranges of h. They are valid until h changes.
func (h *Holder[O]) Ranges() Set { return h.ranges }

// Lock locks r for h. The caller has checked that no lock of another holder conflicts with it. more is the
// number of ranges that h has gained, and negative if h has lost some.
func (t *Table[O]) Lock(h *Holder[O], r Range) (more int) {
	return t.change(h, r, func(s Set) Set { return s.lock(r) })
}

// Unlock unlocks the bytes from first to last, as far as h has locked them. more is as for Lock.
func (t *Table[O]) Unlock(h *Holder[O], first, last uint64) (more int) {
	return t.change(h, Range{First: first, Last: last}, func(s Set) Set { return s.unlock(first, last) })
}

// change replaces the ranges of h by the result of f, and returns by how many their number has
// grown. f changes only the part within r, but may merge that part with a neighbouring range.
func (t *Table[O]) change(h *Holder[O], r Range, f func(Set) Set) (more int) {
	if h.number == 0 {
		t.holders++
		h.number = t.holders
	}
	for _, was := range h.ranges.touching(r) {
		t.root = t.root.without(was.First, h)
	}
	more = -len(h.ranges)
	h.ranges = f(h.ranges)
	for _, is := range h.ranges.touching(r) {
		t.add(h, is)
	}
	return more + len(h.ranges)
}

// Each calls f for the locked ranges that overlap r, in ascending order, until f returns false.
func (t *Table[O]) Each(r *Range, f func(O, *Range) bool) { t.root.each(r, false, nil, f) }

// Conflicts calls f for the locked ranges that conflict with r, until f returns false. group is the Group
// that wants to lock r, or nil: the search passes over many of its own ranges at once.
func (t *Table[O]) Conflicts(r *Range, group any, f func(O, *Range) bool) {
	t.root.each(r, !r.Write, group, f)
}

// A node is one locked range in a tree that is ordered by the first bytes of the ranges.
type node[O any] struct {
	Range
	h           *Holder[O]
	priority    uint32
	left, right *node[O]
	// reach is the largest last byte in this subtree, and writes that of its write locks, if hasWrite.
	reach, writes uint64
	hasWrite      bool
	// all is one of the Holders of the ranges in this subtree, or nil if these have several Groups.
	// writers is the same for the write locks; it is also nil if there are none.
	all, writers *Holder[O]
}

// together returns h if h and other have the same Group, or are the same Holder, and nil otherwise.
func (h *Holder[O]) together(other *Holder[O]) *Holder[O] {
	if h == other || h != nil && other != nil && h.Group != nil && h.Group == other.Group {
		return h
	}
	return nil
}

// in reports whether h belongs to the Group. It returns false if h or group is nil.
func (h *Holder[O]) in(group any) bool { return group != nil && h != nil && h.Group == group }

// before reports whether n comes before the range of h whose first byte is first.
func (n *node[O]) before(first uint64, h *Holder[O]) bool {
	if n.First != first {
		return n.First < first
	}
	return n.h.number < h.number
}

// measured computes the fields of n that describe its subtree. It returns n.
func (n *node[O]) measured() *node[O] {
	n.reach, n.writes, n.hasWrite = n.Last, n.Last, n.Write
	n.all, n.writers = n.h, nil
	if n.Write {
		n.writers = n.h
	}
	for _, c := range [...]*node[O]{n.left, n.right} {
		if c == nil {
			continue
		}
		n.reach, n.all = max(n.reach, c.reach), n.all.together(c.all)
		switch {
		case !c.hasWrite:
		case !n.hasWrite:
			n.hasWrite, n.writes, n.writers = true, c.writes, c.writers
		default:
			n.writes, n.writers = max(n.writes, c.writes), n.writers.together(c.writers)
		}
	}
	return n
}

// split divides the subtree n into the ranges before the one of h whose first byte is first, and the rest.
func (n *node[O]) split(first uint64, h *Holder[O]) (before, others *node[O]) {
	if n == nil {
		return nil, nil
	}
	if n.before(first, h) {
		n.right, others = n.right.split(first, h)
		return n.measured(), others
	}
	before, n.left = n.left.split(first, h)
	return before, n.measured()
}

// joined merges two subtrees. All ranges of a come before all ranges of b.
func joined[O any](a, b *node[O]) *node[O] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = joined(a.right, b)
		return a.measured()
	}
	b.left = joined(a, b.left)
	return b.measured()
}

func (t *Table[O]) add(h *Holder[O], r Range) {
	n := &node[O]{Range: r, h: h, priority: rand.Uint32()}
	before, others := t.root.split(r.First, h)
	t.root = joined(joined(before, n.measured()), others)
}

// without returns the subtree without the range of h whose first byte is first.
func (n *node[O]) without(first uint64, h *Holder[O]) *node[O] {
	switch {
	case n.h == h && n.First == first:
		return joined(n.left, n.right)
	case n.before(first, h):
		n.right = n.right.without(first, h)
	default:
		n.left = n.left.without(first, h)
	}
	return n.measured()
}

// each is Table.Each, without read locks if writes is set, and without the Group `without` if not nil.
func (n *node[O]) each(r *Range, writes bool, without any, f func(O, *Range) bool) bool {
	if n == nil || n.reach < r.First || writes && (!n.hasWrite || n.writes < r.First) {
		return true
	}
	if n.all.in(without) || writes && n.writers.in(without) {
		return true
	}
	if !n.left.each(r, writes, without, f) {
		return false
	}
	if n.First > r.Last {
		return true
	}
	if n.Last >= r.First && (n.Write || !writes) && !n.h.in(without) && !f(n.h.Owner, &n.Range) {
		return false
	}
	return n.right.each(r, writes, without, f)
}
