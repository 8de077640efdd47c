//go:build race

package iwarp

import (
	"runtime"
	"unsafe"
)

// What goes through a socket is ordered: what happened before a write happened
// before the read that got its bytes. The race detector knows that of the
// system calls of package syscall, and is told here of ours.
var socketOrder byte

func raceWrite() { runtime.RaceReleaseMerge(unsafe.Pointer(&socketOrder)) }
func raceRead()  { runtime.RaceAcquire(unsafe.Pointer(&socketOrder)) }
