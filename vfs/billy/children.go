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
// became known. Cookies count in that order, which additions and removals do
// not change.
type children struct {
	salt  uint64
	names map[string]*entry
	order []*entry // by rising cookie; removed ones stay until they are the most
	last  uint64   // the youngest cookie
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

// put enters a name that is not there.
func (c *children) put(name string, n *node) {
	c.last++
	e := &entry{name: name, cookie: c.last, node: n}
	c.names[name] = e
	c.order = append(c.order, e)
}

// remove takes out a name that is there.
func (c *children) remove(name string) {
	c.names[name].node = nil
	delete(c.names, name)
	if len(c.order) > 2*len(c.names)+32 {
		c.order = slices.DeleteFunc(c.order, func(e *entry) bool { return e.node == nil })
	}
}

// valid says that a cookie is of this process and directory.
func (c *children) valid(cookie uint64) bool {
	return cookie == 0 || cookie > c.salt && cookie <= c.last
}

// after returns the entries behind cookie, at most n of those that are still
// there.
func (c *children) after(cookie uint64, n int) (page []entry) {
	i := sort.Search(len(c.order), func(i int) bool { return c.order[i].cookie > cookie })
	for ; i < len(c.order) && len(page) < n; i++ {
		if c.order[i].node != nil {
			page = append(page, *c.order[i])
		}
	}
	return page
}
