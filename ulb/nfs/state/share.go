package state

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

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

// opens are the opens of a file, grouped by their access and deny bits. There are at most 16
// groups, and a search looks at one open of each client in a group. So the search stays short,
// however often one client has the file open.
type opens []openGroup

type openGroup struct {
	access, deny Access
	// heads has one open of each client; it is never empty. State.next links the other opens that
	// the client has in the group to this one.
	heads []*State
	// byClient finds the head of a client. It is nil until there are more than fewHeads.
	byClient map[*Client]*State
}

// fewHeads is the largest length of heads at which a group searches heads itself instead of
// byClient.
const fewHeads = 8

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

// head returns the open of c in heads, or nil.
func (g *openGroup) head(c *Client) *State {
	if g.byClient != nil {
		return g.byClient[c]
	}
	for _, s := range g.heads {
		if s.Client == c {
			return s
		}
	}
	return nil
}

// setHead stores s in heads at the index s.at. s then is the head of its client's opens.
func (g *openGroup) setHead(s *State) {
	g.heads[s.at] = s
	switch {
	case g.byClient != nil:
		g.byClient[s.Client] = s
	case len(g.heads) > fewHeads:
		g.byClient = make(map[*Client]*State, len(g.heads))
		for _, s := range g.heads {
			g.byClient[s.Client] = s
		}
	}
}

func (all *opens) add(s *State) {
	g := all.group(s)
	if h := g.head(s.Client); h != nil {
		if s.prev, s.next = h, h.next; s.next != nil {
			s.next.prev = s
		}
		h.next = s
		return
	}
	s.at = len(g.heads)
	g.heads = append(g.heads, s)
	g.setHead(s)
}

func (all *opens) remove(s *State) {
	g := all.group(s)
	if s.next != nil {
		s.next.prev = s.prev
	}
	switch {
	case s.prev != nil:
		s.prev.next = s.next
	case s.next != nil:
		s.next.at = s.at
		g.setHead(s.next)
	default:
		delete(g.byClient, s.Client)
		if g.heads = without(g.heads, s); len(g.heads) == 0 {
			*all = slices.DeleteFunc(*all, func(g openGroup) bool { return len(g.heads) == 0 })
		}
	}
	s.prev, s.next = nil, nil
}

// without removes s from list and moves the last state to its place. The field at of each state is
// its index in list.
func without(list []*State, s *State) []*State {
	last := len(list) - 1
	list[s.at], list[last].at = list[last], s.at
	list[last] = nil
	return list[:last]
}

// each calls f for the heads of each group that has any of the access bits or any of the deny bits
// (see openGroup), until f returns false.
func (all opens) each(access, deny Access, f func(head *State) bool) {
	for i := range all {
		if g := &all[i]; g.access&access == 0 && g.deny&deny == 0 {
			continue
		}
		for _, s := range all[i].heads {
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

// denials holds the denied accesses of all files that are open with a deny mode. Readers do not
// take Manager.mu; writers hold it.
type denials struct {
	// all is the number of files that are open with a deny mode, plus grace.denials. While it is 0,
	// no access has to be checked.
	all    atomic.Int64
	seed   maphash.Seed
	once   sync.Once
	shards [16]struct {
		mu   sync.RWMutex
		deny map[fileID]Access
	}
}

func (d *denials) shard(id fileID) int {
	d.once.Do(func() { d.seed = maphash.MakeSeed() })
	return int(maphash.Bytes(d.seed, id.handle.Bytes()) % uint64(len(d.shards)))
}

func (d *denials) of(id fileID) Access {
	s := &d.shards[d.shard(id)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deny[id]
}

// set stores the accesses that the opens of a file deny.
func (d *denials) set(id fileID, deny Access) {
	if deny == 0 && d.all.Load() == 0 {
		return
	}
	s := &d.shards[d.shard(id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.deny[id]
	switch {
	case deny != 0:
		if s.deny == nil {
			s.deny = make(map[fileID]Access)
		}
		s.deny[id] = deny
		if !was {
			d.all.Add(1)
		}
	case was:
		delete(s.deny, id)
		d.all.Add(-1)
	}
}
