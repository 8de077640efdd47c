package state

import (
	"bytes"
	"math/rand/v2"
)

// locked holds the locked ranges of a file, of all stateids, so that a search for overlapping
// ranges visits few others. It is a treap ordered by the starts of the ranges. Each node knows
// how far the ranges in its subtree reach. Manager.mu guards it.
type locked struct{ root *lockedRange }

// A lockedRange is one locked range of the lock state s.
type lockedRange struct {
	byteRange
	s           *State
	priority    uint32
	left, right *lockedRange
	// reach is the largest last byte in this subtree. writes is the largest last byte of its
	// write locks, if hasWrite is set.
	reach, writes uint64
	hasWrite      bool
}

// before reports whether n comes before the range of s that begins at start.
func (n *lockedRange) before(start uint64, s *State) bool {
	if n.start != start {
		return n.start < start
	}
	return bytes.Compare(n.s.other[:], s.other[:]) < 0
}

// measured updates reach, writes and hasWrite of n from its children.
func (n *lockedRange) measured() *lockedRange {
	n.reach, n.writes, n.hasWrite = n.last, n.last, n.write
	for _, c := range [...]*lockedRange{n.left, n.right} {
		if c == nil {
			continue
		}
		n.reach = max(n.reach, c.reach)
		if c.hasWrite && (!n.hasWrite || c.writes > n.writes) {
			n.hasWrite, n.writes = true, c.writes
		}
	}
	return n
}

// split divides the subtree n into the ranges before the range of s that begins at start, and the
// others.
func (n *lockedRange) split(start uint64, s *State) (before, others *lockedRange) {
	if n == nil {
		return nil, nil
	}
	if n.before(start, s) {
		n.right, others = n.right.split(start, s)
		return n.measured(), others
	}
	before, n.left = n.left.split(start, s)
	return before, n.measured()
}

// joined merges two subtrees. All ranges of a come before all ranges of b.
func joined(a, b *lockedRange) *lockedRange {
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

func (l *locked) add(s *State, r byteRange) {
	n := &lockedRange{byteRange: r, s: s, priority: rand.Uint32()}
	before, others := l.root.split(r.start, s)
	l.root = joined(joined(before, n.measured()), others)
}

// remove removes the range of s that begins at start.
func (l *locked) remove(s *State, start uint64) { l.root = l.root.without(start, s) }

func (n *lockedRange) without(start uint64, s *State) *lockedRange {
	switch {
	case n.s == s && n.start == start:
		return joined(n.left, n.right)
	case n.before(start, s):
		n.right = n.right.without(start, s)
	default:
		n.left = n.left.without(start, s)
	}
	return n.measured()
}

// each calls f for the ranges that overlap r, in the order of their starts, until f returns
// false. If writes is set, it calls f only for write locks.
func (l *locked) each(r *byteRange, writes bool, f func(*lockedRange) bool) {
	l.root.each(r, writes, f)
}

func (n *lockedRange) each(r *byteRange, writes bool, f func(*lockedRange) bool) bool {
	if n == nil || n.reach < r.start || writes && (!n.hasWrite || n.writes < r.start) {
		return true
	}
	if !n.left.each(r, writes, f) {
		return false
	}
	if n.start > r.last {
		return true
	}
	if n.last >= r.start && (n.write || !writes) && !f(n) {
		return false
	}
	return n.right.each(r, writes, f)
}

// conflict calls f for the ranges that conflict with r, until f returns false.
func (l *locked) conflict(r *byteRange, f func(*lockedRange) bool) { l.root.each(r, !r.write, f) }
