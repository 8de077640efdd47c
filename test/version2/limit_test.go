package version2

import (
	"testing"

	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The limit that a responder gives follows what it has received, whatever it has sent: a peer that sends three messages for
// each reply never runs short of credits, and never gets more. Rows V2-8, V2-10 of docs/conformance.md.
func TestLimitFollowsWhatArrives(t *testing.T) {
	p := settled(t)
	sent, window := uint32(1), uint32(0) // the properties
	for i := range uint32(200) {
		for range 2 {
			p.send(message(9999, wire.TypeReplyInline, words(0), nullReply(9999))) // to no call
		}
		xid := 100 + i
		p.send(call(xid, wire.Lists{}, bump(xid)))
		sent += 3
		q, _ := wire.ParsePrefix2(p.receive())
		if q.Type != wire.TypeReplyInline || q.XID != xid {
			t.Fatalf("got %+v, want the reply to %d", q, xid)
		}
		ahead := q.Limit - sent
		if i == 0 {
			window = ahead
		}
		if ahead != window || ahead == 0 || ahead >= 1<<31-1 {
			t.Fatalf("after %d messages the limit is %d, at first it was %d ahead", sent, q.Limit, window)
		}
	}
}

// A responder raises the limit when half of it is used, although there is nothing to reply to. Row V2-N5 of
// docs/conformance.md.
func TestLimitIsRaisedEarly(t *testing.T) {
	p := newResponder(t, rdma.Config{Version2: true}).dial(t)
	p.send(final(0x5e7))
	q, _ := wire.ParsePrefix2(p.receive())
	for range q.Limit / 2 {
		p.send(message(9999, wire.TypeReplyInline, words(0), nullReply(9999))) // to no call
	}
	f := p.next()
	if g, _ := wire.ParsePrefix2(f.Payload); f.Op != iwarpwire.Send || g.Type != wire.TypeGrant || int32(g.Limit-q.Limit) <= 0 {
		t.Errorf("after half of the %d messages came %v %x", q.Limit, f.Op, f.Payload)
	}
}
