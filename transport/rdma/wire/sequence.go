package wire

// A Sequence follows the messages of version 2 that arrive on a connection, and finds those that break their
// order (§6.3.3, §6.3.4, §6.3.6, §6.3.9): a peer announces its properties once, and the parts of an RPC message
// follow each other without another message between them. It holds no part itself, and takes no memory of
// its own. The zero Sequence is that of a new connection. Its user passes the messages to it one by one, in
// the order of their arrival.
type Sequence struct {
	// Most is the length of the longest RPC message that may arrive in parts, in bytes. Set it before the
	// first call of Add.
	Most uint64

	announced announcement
	// run is TypeCallMiddle or TypeReplyMiddle while an RPC message is incomplete, otherwise 0. xid is its
	// XID, and left the number of its bytes that are still to come.
	run       HeaderType
	xid, left uint32
	failed    [4]failedRun
	oldest    int // the entry of failed that is replaced next
}

// announcement says how far a peer is with its properties.
type announcement uint8

const (
	notAnnounced announcement = iota
	announcing                // the last message was an RDMA2_CONNPROP_MIDDLE
	announced
)

// A failedRun names an RPC message of which more parts may arrive after it has failed. kind is TypeCallMiddle
// or TypeReplyMiddle; 0 if the entry is free.
type failedRun struct {
	kind HeaderType
	xid  uint32
}

// A Step is what a Sequence says about a message.
type Step struct {
	// Refusal is the fault of the message itself, which is dropped then.
	Refusal
	// Drop is true if the message belongs to an RPC message that has failed before. It is dropped without
	// an answer.
	Drop bool
	// Interrupted is true if the message has ended an incomplete RPC message of another XID, XID. Its peer
	// gets an RDMA2_ERROR with Err2InvalCont for that one too. Of a reply, the call ends as well: Reply.
	Interrupted, Reply bool
	XID                uint32
}

// Admit judges the place of a message of a known type in the order of messages. It looks at the prefix alone.
// If the step says nothing else, the message goes on: its user decodes it, and passes its part of an RPC
// message to Add; if it cannot be decoded, to Fail.
func (s *Sequence) Admit(p Prefix2) Step {
	if s.drops(p) {
		return Step{Drop: true}
	}
	if s.run != 0 && !s.continues(p) {
		return s.interrupt(p)
	}
	switch {
	case p.Type == TypeConnpropMiddle && s.announced != announced:
		s.announced = announcing
	case p.Type == TypeConnpropFinal && s.announced != announced:
		s.announced = announced
	case p.Type.IsConnprop():
		return Step{Refusal: badContinuation("properties come after the final ones")}
	case s.announced == announcing:
		s.fail(p)
		return Step{Refusal: badContinuation("the properties are not complete")}
	}
	return Step{}
}

// continues reports whether a message is the next one of the incomplete RPC message.
func (s *Sequence) continues(p Prefix2) bool {
	// The type of the last part is that of the others plus 1.
	return (p.Type == s.run || p.Type == s.run+1) && p.XID == s.xid
}

// interrupt judges a message that is no part of the incomplete RPC message. A message about the connection
// or about another RPC message leaves the incomplete one as it is. Everything else ends it: its peer would
// wait for an answer forever if only the other message were refused.
func (s *Sequence) interrupt(p Prefix2) Step {
	step := Step{Refusal: badContinuation("an RPC message is not complete")}
	if p.Type == TypeGrant || p.Type == TypeError {
		return step
	}
	step.Interrupted, step.XID, step.Reply = s.xid != p.XID, s.xid, s.run == TypeReplyMiddle
	s.note(s.run, s.xid)
	s.run = 0
	s.fail(p)
	return step
}

// Add takes the part of an RPC message that an admitted RDMA2_*_MIDDLE or RDMA2_*_INLINE carries. size is the
// part's length, and remaining the header's Remaining, 0 for RDMA2_*_INLINE. If the message is refused, the
// parts before it are void, and Step.Drop will be true for those after it.
func (s *Sequence) Add(p Prefix2, size int, remaining uint32) Refusal {
	begins, middle := s.run == 0, p.Type.IsMiddle()
	var why string
	switch {
	case begins && !middle:
		return Refusal{} // a whole RPC message
	case size < MinFragment:
		why = "a part has less than 4 bytes"
	case middle && remaining == 0:
		why = "nothing comes after a part that is not the last"
	case begins && uint64(size)+uint64(remaining) > s.Most:
		why = "an RPC message is too long"
	case !begins && uint64(size)+uint64(remaining) != uint64(s.left):
		why = "the length of a part does not agree with rdma_remaining"
	}
	if why != "" {
		s.Fail(p)
		return badContinuation(why)
	}
	s.run = 0
	if middle {
		s.run, s.xid, s.left = p.Type, p.XID, remaining
	}
	return Refusal{}
}

// Left returns the number of bytes that are still to come of the RPC message that is incomplete, and its XID.
// ok is false if there is none.
func (s *Sequence) Left() (xid, left uint32, ok bool) { return s.xid, s.left, s.run != 0 }

// Fail ends the RPC message to which an admitted message belongs, because that message cannot be decoded, or
// because there is no room for the parts. Its later parts will be dropped.
func (s *Sequence) Fail(p Prefix2) {
	s.run = 0
	s.fail(p)
}

// Abandon ends the incomplete RPC message, if there is one, because it waited too long for its next part.
func (s *Sequence) Abandon() {
	if s.run != 0 {
		s.note(s.run, s.xid)
		s.run = 0
	}
}

// fail notes that p's RPC message has failed if more parts of it may come.
func (s *Sequence) fail(p Prefix2) {
	if p.Type.IsMiddle() {
		s.note(p.Type, p.XID)
	}
}

// note remembers a failed RPC message. A peer that behaves has one of them at most. Of a peer that has more,
// the oldest one is forgotten.
func (s *Sequence) note(kind HeaderType, xid uint32) {
	s.failed[s.oldest] = failedRun{kind, xid}
	s.oldest = (s.oldest + 1) % len(s.failed)
}

// drops reports whether a message belongs to an RPC message that has failed (§7.1.4). The last part ends
// that: the XID may be used again.
func (s *Sequence) drops(p Prefix2) bool {
	kind := TypeCallMiddle
	switch {
	case p.Type.IsReply():
		kind = TypeReplyMiddle
	case !p.Type.IsCall():
		return false
	}
	found := false
	for i := range s.failed {
		if s.failed[i] == (failedRun{kind, p.XID}) {
			found = true
			if p.Type == kind+1 {
				s.failed[i] = failedRun{}
			}
		}
	}
	return found
}
