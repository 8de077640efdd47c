package state

import "slices"

// Access is what an open file may be used for, or what it keeps others from.
type Access uint8

// Bits of Access, as OPEN has them (RFC 8881 §18.16).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// modes are the ways in which an owner has a file open: a bit for each pair of access
// and deny mode.
type modes uint16

func mode(access, deny Access) modes { return 1 << (access | deny<<2) }

// all are all modes, in pairs.
func (m modes) each(f func(access, deny Access)) {
	for access := range AccessBoth + 1 {
		for deny := range AccessBoth + 1 {
			if m&mode(access, deny) != 0 {
				f(access, deny)
			}
		}
	}
}

// union is what the opens come to together.
func (m modes) union() (access, deny Access) {
	m.each(func(a, d Access) {
		access |= a
		deny |= d
	})
	return access, deny
}

// within are the opens that are left when nothing beyond access and deny is.
func (m modes) within(access, deny Access) (left modes) {
	m.each(func(a, d Access) {
		if a&^access == 0 && d&^deny == 0 {
			left |= mode(a, d)
		}
	})
	return left
}

// accesses says with which access there are opens, as bits by number.
func (m modes) has(access Access) (has bool) {
	m.each(func(a, _ Access) { has = has || a == access })
	return has
}

// opens are the opens of a file, those together that are for the same and deny others the
// same. There are few such groups, and a search ends in the first that stands in its way.
type opens []openGroup

type openGroup struct {
	access, deny Access
	states       []*State // none twice, and at least one
}

// group finds or makes the group of what s is open for.
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

// without is a list in which each state knows its place, without s.
func without(list []*State, s *State) []*State {
	last := len(list) - 1
	list[s.at], list[last].at = list[last], s.at
	list[last] = nil
	return list[:last]
}

// each calls f for the opens that are for any of access, or deny any of deny, until it is
// false.
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

// denied are the bits that any of the opens denies.
func (all opens) denied() (deny Access) {
	for i := range all {
		deny |= all[i].deny
	}
	return deny
}

// wanted are the bits that any of the opens has.
func (all opens) wanted() (access Access) {
	for i := range all {
		access |= all[i].access
	}
	return access
}
