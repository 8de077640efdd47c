package state

import "slices"

// Access is a set of kinds of access to a file: reading, writing, or both. An open has two such
// sets: the accesses of its owner, and those that it denies to others.
type Access uint8

// Bits of Access, as OPEN has them (RFC 8881 §18.16).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// modes is a set of open modes. A mode is a pair of access and deny bits, and modes has one bit for
// each pair.
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

// has reports whether one of the modes has exactly this access.
func (m modes) has(access Access) (has bool) {
	m.each(func(a, _ Access) { has = has || a == access })
	return has
}

// opens counts the opens of a file by their access and deny bits. There are at most 16 groups, and
// a search looks at one client of a group after the other. So the search stays short, however often
// one client has the file open.
type opens []openGroup

type openGroup struct {
	access, deny Access
	clients      map[*Client]int // number of opens of each client; never empty
}

func (g *openGroup) holds(s *State) bool {
	access, deny := s.modes.union()
	return g.access == access && g.deny == deny
}

func (all *opens) add(s *State) {
	i := slices.IndexFunc(*all, func(g openGroup) bool { return g.holds(s) })
	if i < 0 {
		i = len(*all)
		access, deny := s.modes.union()
		*all = append(*all, openGroup{access, deny, make(map[*Client]int)})
	}
	(*all)[i].clients[s.Client]++
}

func (all *opens) remove(s *State) {
	i := slices.IndexFunc(*all, func(g openGroup) bool { return g.holds(s) })
	clients := (*all)[i].clients
	if clients[s.Client]--; clients[s.Client] > 0 {
		return
	}
	if delete(clients, s.Client); len(clients) == 0 {
		*all = slices.Delete(*all, i, i+1)
	}
}

// each calls f for the clients of each group that has any of the access bits or any of the deny
// bits, until f returns false.
func (all opens) each(access, deny Access, f func(g *openGroup, c *Client) bool) {
	for i := range all {
		g := &all[i]
		if g.access&access == 0 && g.deny&deny == 0 {
			continue
		}
		for c := range g.clients {
			if !f(g, c) {
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
