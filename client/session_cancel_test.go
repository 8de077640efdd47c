package client

import (
	"errors"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// held is a caller that keeps each request until the test answers it, also beyond a Cancel: the
// reply is on its way.
type held struct{ all []*rpc.Exchange }

func (h *held) Start(x *rpc.Exchange)       { h.all = append(h.all, x) }
func (h *held) Cancel(*rpc.Exchange, error) {}
func (h *held) take() (x *rpc.Exchange)     { x, h.all = h.all[0], h.all[1:]; return x }
func refusal(status nfs4wire.NFSStat4) xdr.Writer {
	var w xdr.Writer
	w.Reset(make([]byte, 0, 64))
	for _, word := range []uint32{uint32(status), 0, 1, uint32(nfs4wire.OpSequence), uint32(status)} {
		w.Uint32(word)
	}
	return w
}

// cancelSession returns a session with one slot, whose requests h holds.
func cancelSession(h *held) *Session {
	s := &Session{cfg: SessionConfig{Minor: 2}, wake: make(chan struct{}, 1), delay: newStopped(), made: time.Now()}
	s.slots = newSlotTable(nfs4wire.SessionID4{1}, 1)
	s.links = []*link{{conn: &Conn{caller: h}}}
	s.recovering = true // the test makes no new session
	return s
}

// settles answers the SEQUENCE that finds out whether the server has used up the number of a slot, and
// checks that the slot then serves the next request.
func (h *held) settles(t *testing.T, s *Session) {
	t.Helper()
	if len(h.all) != 1 {
		t.Fatalf("%d requests are with the transport, want the SEQUENCE that settles the slot", len(h.all))
	}
	settle := h.take()
	var w xdr.Writer
	w.Reset(make([]byte, 0, 256))
	goodSequence(&w, &nfs4wire.Sequence4Args{Sessionid: nfs4wire.SessionID4{1}, Sequenceid: 1}, 1)
	settle.Results.Reset(w.Bytes(), 0, nil)
	settle.Done(settle)
	next := &Compound{}
	s.Start(next)
	if len(h.all) != 1 || next.sequence.Sequenceid != 2 {
		t.Errorf("the next request is not sent, or its number is %d, not 2", next.sequence.Sequenceid)
	}
}

// A request that waits to be sent again on its slot is cancelled. The slot serves the next request.
func TestCancelOfARequestThatWaitsWithASlot(t *testing.T) {
	h := &held{}
	s := cancelSession(h)
	given, ended := errors.New("given up"), 0
	c := &Compound{Done: func(*Compound) { ended++ }}
	s.Start(c)
	answer(h.take(), nfs4wire.NFS4ErrDelay)
	if ended != 0 || c.in == nil || c.slot == nil {
		t.Fatalf("the request has ended with %v, or does not wait with its slot", c.Err)
	}
	s.Cancel(c, given)
	if ended != 1 || !errors.Is(c.Err, given) {
		t.Fatalf("the request ended %d times, with %v", ended, c.Err)
	}
	h.settles(t, s)
}

// A request that its caller has cancelled is not sent again, whatever the reply says that is on its way
// at that moment. Its slot serves the next request.
func TestCancelledRequestIsNotSentAgain(t *testing.T) {
	for name, end := range map[string]func(x *rpc.Exchange){
		"NFS4ERR_DELAY":      func(x *rpc.Exchange) { answer(x, nfs4wire.NFS4ErrDelay) },
		"NFS4ERR_BADSESSION": func(x *rpc.Exchange) { answer(x, nfs4wire.NFS4ErrBadSession) },
		"a lost connection":  func(x *rpc.Exchange) { x.Err = rpc.ErrCallLost; x.Done(x) },
	} {
		t.Run(name, func(t *testing.T) {
			h := &held{}
			s := cancelSession(h)
			given, ended := errors.New("given up"), 0
			c := &Compound{Done: func(*Compound) { ended++ }}
			s.Start(c)
			s.Cancel(c, given)
			end(h.take())
			if ended != 1 || !errors.Is(c.Err, given) {
				t.Fatalf("the request ended %d times, with %v", ended, c.Err)
			}
			if s.phase != phaseUp {
				return // the slots are gone with the session
			}
			h.settles(t, s)
		})
	}
}

func answer(x *rpc.Exchange, status nfs4wire.NFSStat4) {
	w := refusal(status)
	x.Results.Reset(w.Bytes(), 0, nil)
	x.Done(x)
}

// A caller cancels a request while another goroutine looks at its reply, NFS4ERR_DELAY. Whichever
// comes first, the request ends.
func TestCancelBesideAReply(t *testing.T) {
	for range 20_000 {
		h := &held{}
		s := &Session{cfg: SessionConfig{Minor: 2}, wake: make(chan struct{}, 1), delay: newStopped(), made: time.Now()}
		s.slots = newSlotTable(nfs4wire.SessionID4{1}, 1)
		s.links = []*link{{conn: &Conn{caller: h}}}
		given, ended := errors.New("given up"), make(chan struct{}, 1)
		c := &Compound{Done: func(*Compound) { ended <- struct{}{} }}
		s.Start(c)
		x := h.take()
		answered := make(chan struct{})
		go func() { answer(x, nfs4wire.NFS4ErrDelay); close(answered) }()
		s.Cancel(c, given)
		<-answered
		select {
		case <-ended:
		default:
			t.Fatal("the request goes on, though both its reply and its cancellation are done with")
		}
	}
}

// A reply without results frees its slot for the next request.
func TestSlotOfAReplyWithoutResults(t *testing.T) {
	h := &held{}
	s := &Session{cfg: SessionConfig{Minor: 2}, wake: make(chan struct{}, 1), delay: newStopped(), made: time.Now()}
	s.slots = newSlotTable(nfs4wire.SessionID4{1}, 1)
	s.links = []*link{{conn: &Conn{caller: h}}}
	first, second := &Compound{}, &Compound{}
	s.Start(first)
	s.Start(second)
	x := h.take()
	var w xdr.Writer
	w.Reset(make([]byte, 0, 64))
	for _, word := range []uint32{uint32(nfs4wire.NFS4ErrResource), 0, 0} {
		w.Uint32(word)
	}
	x.Results.Reset(w.Bytes(), 0, nil)
	x.Done(x)
	if StatusOf(first.Err) != nfs4wire.NFS4ErrResource || len(h.all) != 1 {
		t.Errorf("the request ends with %v, and %d requests follow it", first.Err, len(h.all))
	}
}

// Attempts to recover follow at once only after a request that has succeeded; else ever later.
func TestPaceOfRecovery(t *testing.T) {
	var p pace
	for i, c := range []struct {
		succeeded int64
		want      time.Duration
	}{{1, 0}, {1, redialFirst}, {1, 2 * redialFirst}, {2, 0}, {2, redialFirst}, {3, 0}} {
		if got := p.next(c.succeeded); got != c.want {
			t.Errorf("attempt %d waits %v, want %v", i, got, c.want)
		}
	}
	for range 20 {
		p.next(3)
	}
	if got := p.next(3); got != redialMost {
		t.Errorf("the longest wait is %v", got)
	}
	p.least = time.Hour
	if got := p.next(4); got <= time.Minute {
		t.Errorf("an attempt follows another by %v, at least %v is due", got, p.least)
	}
}
