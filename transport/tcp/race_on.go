//go:build race

package tcp

import "sync/atomic"

// What is read from a socket was written to it before. The race detector knows
// that of the standard library's reads and writes; ours it is told.
var order atomic.Uint64

func wroteSomething() { order.Add(1) }
func readSomething()  { order.Load() }
