package rpc

import "time"

// A Reason is what calls have waited for, in the statistics of waits.
type Reason uint8

// Values of Reason. From ForUnknown on they are the values of Wait, in the same order.
const (
	// ForDisk: a worker executed the call, which waited for the resource of its lane, or used a processor.
	ForDisk Reason = iota
	// ForThread: the call waited in its lane for a worker.
	ForThread
	ForUnknown
	ForUser
	ForState
	ForTurn

	reasons
)

func (w Wait) reason() Reason { return ForUnknown + Reason(w) }

var reasonNames = [reasons]string{"disk", "thread", "unknown", "user", "state", "turn"}

// String returns the reason as it appears in the labels of metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// WaitStats describes the waits for one Reason. A call may wait several times, and for several reasons.
type WaitStats struct {
	// Now is the number of calls that wait now. Ended is the number of waits that have ended, and Took the time that
	// they took together.
	Now   int
	Ended uint64
	Took  time.Duration
}

func (w *WaitStats) end(took time.Duration) {
	w.Ended++
	w.Took += max(took, 0)
}
