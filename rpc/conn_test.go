package rpc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Conn.Close calls each function registered with OnClose once, unless it was removed (forget). A
// function may be removed at any time, also after Close.
func TestOnClose(t *testing.T) {
	const all = 9
	for _, taken := range [][]int{{}, {0}, {8}, {4}, {0, 1}, {7, 8}, {4, 3, 5}, {0, 8, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8}} {
		t.Run(fmt.Sprint(taken), func(t *testing.T) {
			c := new(rpc.Conn)
			var called []int
			var forget [all]func()
			for i := range all {
				forget[i] = c.OnClose(func() { called = append(called, i) })
			}
			for _, i := range taken {
				forget[i]()
				forget[i]() // a second cancellation does nothing
			}
			c.Close()
			c.Close()
			for i := range all {
				forget[i]()
			}
			slices.Sort(called)
			var want []int
			for i := range all {
				if !slices.Contains(taken, i) {
					want = append(want, i)
				}
			}
			if !slices.Equal(called, want) {
				t.Errorf("called %v, want %v", called, want)
			}
		})
	}
	c := new(rpc.Conn)
	called := 0
	var others []func()
	for range all {
		others = append(others, c.OnClose(func() {
			called++
			for _, f := range others {
				f()
			}
		}))
	}
	c.Close()
	if called != 1 {
		t.Errorf("%d were called, of which the first takes back the others", called)
	}
	c.OnClose(func() { called++ })
	if called != 2 {
		t.Error("a connection that is closed already does not say so")
	}
}
