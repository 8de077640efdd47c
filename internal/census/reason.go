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
	// the newcomer may take none of its seats, for the same reasons as with AddressFull.
	Full
	Crowded       // too many connections that lost their seats are not closed yet (Spare)
	Evicted       // the seat went to a newcomer
	SlowSetup     // the set-up took too long
	NothingHeard  // after the set-up, no whole message came in time
	NothingServed // no call that makes the peer Known was accepted in time

	reasons
)

// reasonTexts has the name of each reason in metrics, and its text as an error.
var reasonTexts = [reasons]struct{ name, text string }{
	AddressFull:   {"address_full", "its address has too many connections"},
	Full:          {"full", "there are too many connections, and its address has most of them"},
	Crowded:       {"crowded", "there are too many connections, and those that go are not gone yet"},
	Evicted:       {"evicted", "its place was given to a newcomer, because there are too many connections"},
	SlowSetup:     {"slow_setup", "its set-up took too long"},
	NothingHeard:  {"nothing_heard", "nothing came over it in time"},
	NothingServed: {"nothing_served", "no call came over it in time that this server serves"},
}

// String returns the name of r in metrics.
func (r Reason) String() string {
	if r == 0 || r >= reasons {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonTexts[r].name
}

// Error implements error.
func (r Reason) Error() string {
	if r == 0 || r >= reasons {
		return "census: " + r.String()
	}
	return "census: " + reasonTexts[r].text
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
