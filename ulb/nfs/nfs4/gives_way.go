package nfs4

import (
	"runtime"
	"time"
)

// yield lets other goroutines use the processor if the compound has used it for long: for quietOps
// operations if none of them can block, otherwise for longer than quietTime. Without that, the Go
// runtime would let a goroutine use the processor for 10 ms, and calls of other clients would wait
// that long for each of the compounds in progress.
func (k *Compound) yield() {
	if k.Op.Try {
		if k.Index%quietOps == quietOps-1 {
			runtime.Gosched()
		}
	} else if time.Since(k.yielded) > quietTime {
		runtime.Gosched()
		k.yielded = time.Now()
	}
}

// Thresholds of yield. Few compounds of ordinary clients have quietOps operations or more.
const (
	quietOps  = 8
	quietTime = 500 * time.Microsecond
)

// usualTurn is the time after which a compound on a goroutine of the executor lets other
// calls run, between two of its operations. The reason is that a compound may have many
// slow operations.
const usualTurn = 100 * time.Millisecond
