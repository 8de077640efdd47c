package billy

import (
	"slices"
	"sort"
)

// Cookies of "." and "..", to which the process's salt is added. All others
// follow.
const (
	dotCookie    = 1
	dotDotCookie = 2
)

// children are the known names of a directory, in the order in which they
// became known: that order is what cookies count, and it survives whatever is
// added and removed. memory.mu guards it.
type children struct {
	isRoot bool
	salt   uint64
	names  map[string]*entry
	order  []*entry // by rising cookie, the removed ones too until they are half of it
	dead   int
	last   uint64 // the youngest cookie
	// listed is what the directory looked like when it was last read whole,
	// with what was changed through here since.
	listed facts
	whole  bool
}

type entry struct {
	name   string
	cookie uint64
	node   *node // nil once removed
}

func newChildren(salt uint64) *children {
	return &children{salt: salt, names: make(map[string]*entry), last: salt + dotDotCookie}
}

func (c *children) get(name string) *node {
	if e := c.names[name]; e != nil {
		return e.node
	}
	return nil
}

func (c *children) put(name string, n *node) {
	if e := c.names[name]; e != nil {
		e.node = n
		return
	}
	c.last++
	e := &entry{name: name, cookie: c.last, node: n}
	c.names[name] = e
	c.order = append(c.order, e)
}

func (c *children) remove(name string) {
	e := c.names[name]
	if e == nil {
		return
	}
	delete(c.names, name)
	e.node = nil
	if c.dead++; c.dead > 32 && c.dead > len(c.order)/2 {
		c.order = slices.DeleteFunc(c.order, func(e *entry) bool { return e.node == nil })
		c.dead = 0
	}
}

// valid says that a cookie is of this process and directory.
func (c *children) valid(cookie uint64) bool {
	return cookie == 0 || cookie > c.salt && cookie <= c.last
}

// after returns the entries behind cookie, at most n of those that are still
// there.
func (c *children) after(cookie uint64, n int) []entry {
	i := sort.Search(len(c.order), func(i int) bool { return c.order[i].cookie > cookie })
	var page []entry
	for ; i < len(c.order) && len(page) < n; i++ {
		if c.order[i].node != nil {
			page = append(page, *c.order[i])
		}
	}
	return page
}
