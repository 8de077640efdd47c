package footprint

import (
	"sync/atomic"
	"testing"
)

type shared [1 << 20]byte

type node struct {
	small [64]byte
	part  []byte // part of small
	next  *node
	out   *shared
	later atomic.Pointer[[4096]byte]
	any   any
	names map[string][]byte
	text  string
}

// Of counts every object that another object refers to, once, and no object beyond the stops.
func TestOf(t *testing.T) {
	const own = 64 + 3*8 + 8 + 8 + 8 + 2*8 + 8 + 2*8
	fresh := func() *node {
		n := &node{out: new(shared)}
		n.part = n.small[8:16]
		return n
	}
	for name, c := range map[string]struct {
		change func(n *node)
		more   int
	}{
		"itself":           {func(*node) {}, 0},
		"a buffer":         {func(n *node) { n.part = make([]byte, 10, 1000) }, 1000},
		"a circle":         {func(n *node) { n.next = fresh(); n.next.next = n }, own},
		"one buffer twice": {func(n *node) { b := make([]byte, 1000); n.part, n.any = b, any(&b) }, 1000 + 3*8},
		"overlapping":      {func(n *node) { b := make([]byte, 1000); n.part = b[:600]; n.next = fresh(); n.next.part = b[400:] }, 1000 + own},
		"an atomic":        {func(n *node) { n.later.Store(new([4096]byte)) }, 4096},
		"boxed":            {func(n *node) { n.any = [1000]byte{} }, 1000},
		"a map":            {func(n *node) { n.names = map[string][]byte{"key": make([]byte, 500)} }, 48 + 16 + 24 + 8 + 3 + 500},
		"a string":         {func(n *node) { n.text = string(make([]byte, 700)) }, 700},
		"a channel":        {func(n *node) { n.any = make(chan [100]byte, 10) }, 8 + 96 + 1000},
	} {
		n := fresh()
		c.change(n)
		if got := Of(n, (*shared)(nil)); got != own+c.more {
			t.Errorf("%s: %d bytes, want %d", name, got, own+c.more)
		}
		if got := Of(n); got < 1<<20 {
			t.Errorf("%s: %d bytes without the stop", name, got)
		}
	}
}
