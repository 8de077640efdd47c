package iwarp

import (
	"context"
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

func provider(t testing.TB, cfg Config) *Provider {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Rings > 0 {
		p.rings.Patience = 0 // the test counts rings
	}
	return p
}

// param returns the parameters for accepting and connecting that most tests use.
func param(h rdmacm.Handler) rdmacm.ConnParam {
	return rdmacm.ConnParam{Handler: h, Receives: 4, ReceiveSize: 256, InboundReads: 2, OutboundReads: 3}
}

func listen(t testing.TB, p *Provider) rdmacm.Listener {
	t.Helper()
	l, err := p.Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// side is a connection of this implementation with its Handler.
type side struct {
	*Conn
	*tester
	t testing.TB
}

// ended waits for the connection's end and returns the error of Closed.
func (s *side) ended() error {
	s.t.Helper()
	err := wait(s.t, s.tester.closed)
	wait(s.t, s.Conn.Done())
	return err
}

// terminated waits until the connection ends, and checks that the reason is a Terminate with the
// given cause. remote is true if the peer sent it.
func (s *side) terminated(cause wire.Cause, remote bool) *TerminateError {
	s.t.Helper()
	err := s.ended()
	e, ok := errors.AsType[*TerminateError](err)
	if !ok || e.Cause != cause || e.Remote != remote {
		s.t.Fatalf("closed with %v, want %v", err, cause)
	}
	return e
}

// expose registers memory.
func (s *side) expose(memory []byte, access rdmacm.Access) rdmacm.Region {
	s.t.Helper()
	r, err := s.Register(memory, access)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// passiveOn connects a raw peer to a listener of this implementation.
func passiveOn(t testing.TB, l rdmacm.Listener, f rawpeer.Frame, edit func(*rdmacm.ConnParam)) (*rawpeer.Peer, *side, rawpeer.Frame) {
	t.Helper()
	return passiveTo(t, rawpeer.Dial(t, l.Addr()), l, f, edit)
}

// passiveTo is like passiveOn, for a raw peer that has connected already.
func passiveTo(t testing.TB, raw *rawpeer.Peer, l rdmacm.Listener, f rawpeer.Frame, edit func(*rdmacm.ConnParam)) (*rawpeer.Peer, *side, rawpeer.Frame) {
	t.Helper()
	s := &side{tester: newTester(), t: t}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept()
		if err != nil {
			accepted <- err
			return
		}
		p := param(s.tester)
		if edit != nil {
			edit(&p)
		}
		c, err := r.Accept(p)
		if err == nil {
			s.Conn = c.(*Conn)
		}
		accepted <- err
	}()
	reply := raw.Initiate(f)
	if err := wait(t, accepted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Abort(nil); wait(t, s.Conn.Done()) })
	return raw, s, reply
}

// passive returns a responder of this implementation and a raw initiator with Linux's request.
func passive(t testing.TB, cfg Config) (*rawpeer.Peer, *side) {
	t.Helper()
	f := rawpeer.LinuxRequest()
	f.Enhanced.ORD = 2
	raw, s, _ := passiveOn(t, listen(t, provider(t, cfg)), f, nil)
	return raw, s
}

// dialing starts to connect to a raw responder.
func dialing(t testing.TB, cfg Config, l *rawpeer.Listener, edit func(*rdmacm.ConnParam)) (*side, <-chan error) {
	s := &side{tester: newTester(), t: t}
	pr := provider(t, cfg)
	dialed := make(chan error, 1)
	go func() {
		p := param(s.tester)
		if edit != nil {
			edit(&p)
		}
		c, err := pr.Dial(context.Background(), l.Addr(), p)
		if err == nil {
			s.Conn = c.(*Conn)
		}
		dialed <- err
	}()
	t.Cleanup(func() {
		if s.Conn != nil {
			s.Abort(nil)
			wait(t, s.Conn.Done())
		}
	})
	return s, dialed
}

// active returns an initiator of this implementation, in the client-server model, and a raw
// responder that allows it 3 outstanding Reads and will have at most 2 itself.
func active(t testing.TB, cfg Config) (*rawpeer.Peer, *side) {
	t.Helper()
	cfg.ClientServer = true
	l := rawpeer.Listen(t)
	s, dialed := dialing(t, cfg, l, nil)
	raw := l.Accept()
	raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{IRD: 3, ORD: 2}})
	if err := wait(t, dialed); err != nil {
		t.Fatal(err)
	}
	return raw, s
}

// good waits until a chain completes, and checks that it succeeded.
func good(t testing.TB, ch <-chan result) {
	t.Helper()
	if r := wait(t, ch); r.err != nil || r.failed != -1 {
		t.Fatalf("chain came back with %v, index %d", r.err, r.failed)
	}
}

// pending fails the test if a chain has completed.
func pending(t testing.TB, ch <-chan result) {
	t.Helper()
	select {
	case r := <-ch:
		t.Fatalf("chain came back early, with %v", r.err)
	default:
	}
}

func send(b ...[]byte) rdmacm.Work { return rdmacm.Work{Op: rdmacm.OpSend, Local: b} }
