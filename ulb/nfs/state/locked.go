package state

import (
	"bytes"
	"math/rand/v2"
)

// locked are the locked ranges of a file, of all stateids: those that overlap a range are
// found without a look at the others. It is a treap by where ranges begin, whose nodes know how
// far the ranges below them reach. Manager.mu guards it.
type locked struct{ root *lockedRange }

// A lockedRange is a range that the lock s stands for.
type lockedRange struct {
	byteRange
	s           *State
	priority    uint32
	left, right *lockedRange
	// reach is the last byte of all ranges from here down, and writes, where there is a
	// range that is locked to write, that of those.
	reach, writes uint64
	hasWrite      bool
}

// before says whether n stands before the range of s that begins at start.
func (n *lockedRange) before(start uint64, s *State) bool {
	if n.start != start {
		return n.start < start
	}
	return bytes.Compare(n.s.other[:], s.other[:]) < 0
}

// measured notes in n how far it and those below it reach.
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

// split parts the ranges below n: those that stand before the range of s that begins at start,
// and the others.
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

// joined makes one of two, of which all of the first stand before all of the second.
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

// remove takes out the range of s that begins at start.
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

// each calls f for the ranges that overlap r, of those that are locked to write where writes is
// set, in the order in which they begin, until f is false.
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

// conflict calls f for the ranges that r cannot be beside, until f is false.
func (l *locked) conflict(r *byteRange, f func(*lockedRange) bool) { l.root.each(r, !r.write, f) }

// span is the least range that has all of them within, and is locked to write if any is; false:
// there are none.
func (l *locked) span() (byteRange, bool) {
	n := l.root
	if n == nil {
		return byteRange{}, false
	}
	r := byteRange{last: n.reach, write: n.hasWrite}
	for n.left != nil {
		n = n.left
	}
	r.start = n.start
	return r, true
}
