//go:build race

package tcp

import "sync/atomic"

// A socket orders memory accesses: a write happens before the read that receives its bytes. The
// race detector knows that for the standard library's system calls, but not for those made here.
// wroteSomething and readSomething tell it about them.
var order atomic.Uint64

func wroteSomething() { order.Add(1) }
func readSomething()  { order.Load() }
