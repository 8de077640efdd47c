package nfs4

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// An attempt, on the goroutine that received the compound, executes at most attemptedOps operations.
// The executor runs the others, because client addresses take turns there. Otherwise the peers of
// one address could keep all receiving goroutines busy with long compounds, and the calls of other
// clients would wait for them. Few compounds of ordinary clients have more operations than this.
const attemptedOps = 8

// leaveAttempt ends the attempt of a compound that has executed attemptedOps operations.
func (k *Compound) leaveAttempt() rpc.Outcome {
	if e := k.Current.Export; e != nil {
		k.on = e.FS.Lane()
	}
	return rpc.WouldBlock(k.on)
}

// giveWay is called between two operations of a compound that runs on the executor. If the
// compound's turn is over (rpc.Call.GiveWay), the compound goes to the end of its client's queue,
// and giveWay returns true.
func (k *Compound) giveWay() (queued bool) {
	if !k.Program.givesWay(k.Call, time.Since(k.since)) {
		return false
	}
	k.Index++
	k.Call.Mark(k.W)
	k.Call.Detach()
	k.Resume(k.on) // from here on the compound may belong to another goroutine
	return true
}
