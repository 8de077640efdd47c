package wire

// A Refusal says why a message of version 2 is not accepted, and what its receiver sends back (§7). The
// zero Refusal stands for a message without a fault. A Refusal is a value, not an error, because a peer can
// send any number of bad messages, and none of them shall cost memory.
type Refusal struct {
	// Answer is the body of the RDMA2_ERROR to send. If its Code is 0, nothing goes back: the receiver
	// drops the message.
	Answer ErrorBody2
	// Why describes the fault to tests; no log has it. It is a constant, and not empty.
	Why string
}

// Refused reports whether r stands for a fault.
func (r Refusal) Refused() bool { return r.Why != "" }

// badXDR refuses a message whose Transport stream cannot be parsed (§7.2.1). Nothing goes back for a message
// of a reply: its receiver ends the call instead.
func (p Prefix2) badXDR(why string) Refusal {
	if p.Type.IsReply() {
		return Refusal{Why: why}
	}
	return Refusal{ErrorBody2{Code: Err2BadXDR}, why}
}

// badContinuation refuses a message that breaks the order of messages (§7.1.4).
func badContinuation(why string) Refusal { return Refusal{ErrorBody2{Code: Err2InvalCont}, why} }

// Faults that several parsers find.
const (
	whyTruncated     = "the header reaches beyond the message"
	whyDiscriminator = "the word before an entry of a list is neither 0 nor 1"
)

// why describes an error of the parsers of lists.
func why(err error) string {
	if err == ErrDiscriminator {
		return whyDiscriminator
	}
	return whyTruncated
}
