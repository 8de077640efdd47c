package state

import "slices"

// Access is a set of accesses. An open has two of them: the accesses of its owner, and those
// that it denies to others.
type Access uint8

// Bits of Access, as OPEN has them (RFC 8881 §18.16).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// modes is the set of modes in which an owner has a file open: one bit for each pair of access
// and deny.
type modes uint16

func mode(access, deny Access) modes { return 1 << (access | deny<<2) }

// each calls f for each mode in m.
func (m modes) each(f func(access, deny Access)) {
	for access := range AccessBoth + 1 {
		for deny := range AccessBoth + 1 {
			if m&mode(access, deny) != 0 {
				f(access, deny)
			}
		}
	}
}

// union returns all access bits and all deny bits of the modes, ORed.
func (m modes) union() (access, deny Access) {
	m.each(func(a, d Access) {
		access |= a
		deny |= d
	})
	return access, deny
}

// within returns the modes that use no bit beyond access and deny.
func (m modes) within(access, deny Access) (left modes) {
	m.each(func(a, d Access) {
		if a&^access == 0 && d&^deny == 0 {
			left |= mode(a, d)
		}
	})
	return left
}

// has reports whether an open has exactly this access.
func (m modes) has(access Access) (has bool) {
	m.each(func(a, _ Access) { has = has || a == access })
	return has
}

// opens are the opens of a file, grouped by their access and deny bits. There are at most 16
// groups, so that a search for a conflict is short.
type opens []openGroup

type openGroup struct {
	access, deny Access
	states       []*State // each state once; never empty
}

// group finds or makes the group of s.
func (all *opens) group(s *State) *openGroup {
	access, deny := s.modes.union()
	for i := range *all {
		if g := &(*all)[i]; g.access == access && g.deny == deny {
			return g
		}
	}
	*all = append(*all, openGroup{access: access, deny: deny})
	return &(*all)[len(*all)-1]
}

func (all *opens) add(s *State) {
	g := all.group(s)
	s.at = len(g.states)
	g.states = append(g.states, s)
}

func (all *opens) remove(s *State) {
	g := all.group(s)
	if g.states = without(g.states, s); len(g.states) == 0 {
		*all = slices.DeleteFunc(*all, func(g openGroup) bool { return len(g.states) == 0 })
	}
}

// without removes s from list, in which each state stores its index.
func without(list []*State, s *State) []*State {
	last := len(list) - 1
	list[s.at], list[last].at = list[last], s.at
	list[last] = nil
	return list[:last]
}

// each calls f for the opens that have any of the access bits or any of the deny bits, until f
// returns false.
func (all opens) each(access, deny Access, f func(*State) bool) {
	for i := range all {
		if g := &all[i]; g.access&access == 0 && g.deny&deny == 0 {
			continue
		}
		for _, s := range all[i].states {
			if !f(s) {
				return
			}
		}
	}
}

// denied returns all deny bits of the opens, ORed.
func (all opens) denied() (deny Access) {
	for i := range all {
		deny |= all[i].deny
	}
	return deny
}

// wanted returns all access bits of the opens, ORed.
func (all opens) wanted() (access Access) {
	for i := range all {
		access |= all[i].access
	}
	return access
}
