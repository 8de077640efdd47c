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
	failing   int // the number of entries that are in use
}

// announcement says how far a peer is with its properties.
type announcement uint8

const (
	notAnnounced announcement = iota
	announcing                // the last message was an RDMA2_CONNPROP_MIDDLE
	announced
)

// A failedRun names an RPC message of which more parts may arrive after it has failed. kind is TypeCallMiddle
// or TypeReplyMiddle; 0 if the entry is free. old is true if no part has come since the last call of Expire.
type failedRun struct {
	kind HeaderType
	xid  uint32
	old  bool
}

// A Step is what a Sequence says about a message.
type Step struct {
	// Refusal is the fault of the message itself, which is dropped then.
	Refusal
	// Drop is true if the fault is that the message belongs to an RPC message which has failed before. Nothing
	// goes back.
	Drop bool
	// Interrupted is true if an incomplete RPC message with the XID XID has ended. If it was a reply, Reply is
	// true, and its call ends as well. It may be another RPC message than that of the refused one although both
	// have the same XID, because each direction has XIDs of its own (§3.1.3).
	Interrupted, Reply bool
	XID                uint32
	// Inform is true if the peer gets an RDMA2_ERROR with Err2InvalCont for XID too. It is false if the refusal
	// of the message itself has the same XID.
	Inform bool
}

// Plain reports whether Admit would return the zero Step for a message whatever its XID is: the message carries no
// properties, and no message before it is incomplete or has failed. Nearly all messages are plain, and Plain costs less
// than Admit.
func (s *Sequence) Plain(p Prefix2) bool {
	return s.run == 0 && s.failing == 0 && s.announced != announcing && !p.Type.IsConnprop()
}

// Admit judges the place of a message of a known type in the order of messages. It looks at the prefix alone.
// If the step says nothing else, the message goes on: its user decodes it, and passes its part of an RPC
// message to Add; if it cannot be decoded, to Fail.
func (s *Sequence) Admit(p Prefix2) Step {
	if s.drops(p) {
		return Step{Refusal: Refusal{Why: "its RPC message has failed before"}, Drop: true}
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
	// RDMA2_CALL_INLINE is RDMA2_CALL_MIDDLE plus 1, and the same for replies.
	return (p.Type == s.run || p.Type == s.run+1) && p.XID == s.xid
}

// interrupt judges a message that is no part of the incomplete RPC message. A message about the connection
// or about another RPC message leaves the incomplete one as it is. Everything else ends it: its peer would
// wait for an answer forever if only the other message were refused.
func (s *Sequence) interrupt(p Prefix2) Step {
	refusal := badContinuation("an RPC message is not complete")
	if p.Type == TypeGrant || p.Type == TypeError {
		return Step{Refusal: refusal}
	}
	step := Step{Refusal: refusal, Interrupted: true, Reply: s.run == TypeReplyMiddle, XID: s.xid, Inform: s.xid != p.XID}
	s.note(s.run, s.xid)
	s.run = 0
	s.fail(p)
	return step
}

// Add takes the part of an RPC message that an admitted RDMA2_*_MIDDLE or RDMA2_*_INLINE carries. size is the
// part's length, and remaining the header's Remaining, 0 for RDMA2_*_INLINE. If the message is refused, the
// parts before it are void, and those after it will be refused with Step.Drop.
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

// Incomplete reports whether parts of an RPC message have come, and others are still to come.
func (s *Sequence) Incomplete() bool { return s.run != 0 }

// Fail ends the RPC message to which an admitted message belongs, because that message cannot be decoded, or
// because there is no room for the parts. Its later parts will be dropped.
func (s *Sequence) Fail(p Prefix2) {
	s.run = 0
	s.fail(p)
}

// Failing reports whether there are failed RPC messages that the Sequence has not forgotten.
func (s *Sequence) Failing() bool { return s.failing > 0 }

// Expire forgets the failed RPC messages of which no part has come since the last call of Expire. Its user calls it
// each time that the longest time between two parts of an RPC message has passed. So a message that reuses an XID is
// not dropped forever if the last part of the one before never comes.
func (s *Sequence) Expire() {
	for i := range s.failed {
		if s.failed[i].old {
			s.forget(i)
		}
		s.failed[i].old = true
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
	s.forget(s.oldest)
	s.failed[s.oldest] = failedRun{kind: kind, xid: xid}
	s.failing++
	s.oldest = (s.oldest + 1) % len(s.failed)
}

// forget frees an entry of failed.
func (s *Sequence) forget(i int) {
	if s.failed[i].kind != 0 {
		s.failing--
	}
	s.failed[i] = failedRun{}
}

// drops reports whether a message belongs to an RPC message that has failed (§7.1.4). The last part ends
// that: the XID may be used again. An RDMA2_*_EXTERNAL is dropped too. But it is no part of that message, so Expire
// forgets the message all the same.
func (s *Sequence) drops(p Prefix2) bool {
	if s.failing == 0 {
		return false
	}
	kind := TypeCallMiddle
	switch {
	case p.Type.IsReply():
		kind = TypeReplyMiddle
	case !p.Type.IsCall():
		return false
	}
	found := false
	for i := range s.failed {
		f := &s.failed[i]
		if f.kind == kind && f.xid == p.XID {
			found = true
			switch p.Type {
			case kind:
				f.old = false
			case kind + 1:
				s.forget(i)
			}
		}
	}
	return found
}
