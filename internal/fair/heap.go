package fair

// Each Node has its children in a heap: the one that loses a unit first is children[0]. The order is
// that of before.

// before reports whether a loses a unit before its sibling b: it has surplus units and b has none, or
// else it holds more, or else what it holds has not changed for longer.
func (n *Node[T]) before(b *Node[T]) bool {
	switch {
	case (n.surplus > 0) != (b.surplus > 0):
		return n.surplus > 0
	case n.held != b.held:
		return n.held > b.held
	}
	return n.changed < b.changed
}

// insert adds c to the children of n.
func (t *Tree[T]) insert(n, c *Node[T]) {
	c.up, c.at = n, len(n.children)
	n.children = append(n.children, c)
	t.settle(c)
}

// remove removes c from the children of its parent, and returns the parent.
func (t *Tree[T]) remove(c *Node[T]) *Node[T] {
	n, last := c.up, len(c.up.children)-1
	moved := n.children[last]
	n.children[c.at], moved.at = moved, c.at
	n.children[last] = nil
	n.children = n.children[:last]
	if moved != c {
		t.settle(moved)
	}
	if len(n.children) < cap(n.children)/4 && cap(n.children) > 16 {
		n.children = append(make([]*Node[T], 0, cap(n.children)/2), n.children...)
	}
	c.up = nil
	return n
}

// settle moves c to its place in the heap, after a change of c.
func (t *Tree[T]) settle(c *Node[T]) {
	all := c.up.children
	put := func(at int, n *Node[T]) { all[at], n.at = n, at }
	for t.visited++; c.at > 0 && c.before(all[(c.at-1)/2]); t.visited++ {
		parent := all[(c.at-1)/2]
		at := parent.at
		put(c.at, parent)
		put(at, c)
	}
	for ; ; t.visited++ {
		next := 2*c.at + 1
		if next >= len(all) {
			return
		}
		if next+1 < len(all) && all[next+1].before(all[next]) {
			next++
		}
		child := all[next]
		if !child.before(c) {
			return
		}
		put(c.at, child)
		put(next, c)
	}
}
