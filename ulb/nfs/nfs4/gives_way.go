package nfs4

import (
	"runtime"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// An attempt, on the goroutine that received the compound, executes at most attemptedOps operations.
// The executor runs the others, because client addresses take turns there. Otherwise the peers of
// one address could keep all receiving goroutines busy with long compounds, and the calls of other
// clients would wait for them. Few compounds of ordinary clients have more operations than this.
const attemptedOps = 8

// usualTurn is the time for which a compound runs on a goroutine of the executor. Then it lets
// other calls run, between two of its operations: see giveWay.
const usualTurn = 500 * time.Microsecond

// giveWay is called between two operations of a compound that has used its turn. If other calls
// wait for the executor, the compound goes to the end of its client's queue, and giveWay returns
// true. Otherwise it lets the other goroutines that are ready run, and continues; the Go runtime
// alone would let them wait for 10 ms.
func (k *Compound) giveWay() (queued bool) {
	if !k.Program.contended(k.Call) {
		runtime.Gosched()
		k.since = time.Now()
		return false
	}
	k.Index++
	k.Call.Mark(k.W)
	k.Call.Detach()
	k.Resume(k.on) // from here on the compound may belong to another goroutine
	return true
}

// leaveAttempt ends the attempt of a compound that has executed attemptedOps operations.
func (k *Compound) leaveAttempt() rpc.Outcome {
	if e := k.Current.Export; e != nil {
		k.on = e.FS.Lane()
	}
	return rpc.WouldBlock(k.on)
}
