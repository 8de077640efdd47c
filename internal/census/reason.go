package census

import "fmt"

// A Reason says why a connection was refused a seat or lost it. It is the error of Enter and
// Arrive, and the one that Holder.End gets.
type Reason uint8

// Reasons. The Census refuses a newcomer for those before Evicted, and ends a connection for
// Evicted and the reasons after it.
const (
	// AddressFull: the address of the newcomer has its maximum of seats, and the newcomer may take
	// none of these: each belongs to a peer in the stage Known that is not idle, or is protected by
	// a privileged port (givesItselfLocked).
	AddressFull Reason = iota + 1
	// Full: all seats are taken, and the rules in victim.go choose the newcomer's own address, but
	// the newcomer may take none of its seats: each belongs to a peer in the stage Known that is
	// not idle, or is protected by a privileged port (givesItselfLocked).
	Full
	// Crowded: too many connections that lost their seats are not closed yet (Spare).
	Crowded
	// Evicted: the seat went to a newcomer.
	Evicted
	// SlowSetup: the set-up took too long.
	SlowSetup
	// NothingHeard: after the set-up, no whole message came in time.
	NothingHeard
	// NothingServed: no call that makes the peer Known was accepted in time.
	NothingServed

	reasons
)

var reasonTexts = [reasons]string{
	AddressFull:   "its address has too many connections",
	Full:          "there are too many connections, and its address has most of them",
	Crowded:       "there are too many connections, and those that go are not gone yet",
	Evicted:       "its place was given to a newcomer, because there are too many connections",
	SlowSetup:     "its set-up took too long",
	NothingHeard:  "nothing came over it in time",
	NothingServed: "no call came over it in time that this server serves",
}

var reasonNames = [reasons]string{
	AddressFull: "address_full", Full: "full", Crowded: "crowded", Evicted: "evicted",
	SlowSetup: "slow_setup", NothingHeard: "nothing_heard", NothingServed: "nothing_served",
}

func (r Reason) known() bool { return r > 0 && r < reasons }

// String returns the name of r in metrics.
func (r Reason) String() string {
	if !r.known() {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// Error implements error.
func (r Reason) Error() string {
	if !r.known() {
		return "census: " + r.String()
	}
	return "census: " + reasonTexts[r]
}

// Refusal reports whether r is a reason to refuse a newcomer, rather than to end a connection.
func (r Reason) Refusal() bool { return r < Evicted }

// Reasons returns all reasons.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := AddressFull; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}
