//go:build race

package iwarp

import (
	"runtime"
	"unsafe"
)

// A socket orders memory accesses: a write to the socket happens before the read that receives
// its bytes. The race detector knows that for the system calls of package syscall, but not for
// the system calls made here. raceWrite and raceRead tell the detector of these.
var socketOrder byte

const raceEnabled = true

func raceWrite() { runtime.RaceReleaseMerge(unsafe.Pointer(&socketOrder)) }
func raceRead()  { runtime.RaceAcquire(unsafe.Pointer(&socketOrder)) }
