package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// serving accepts every connection at l.
func serving(t testing.TB, l rdmacm.Listener) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			r, err := l.Accept()
			if err != nil {
				return
			}
			c, err := r.Accept(param(newTester()))
			if err == nil {
				t.Cleanup(func() { c.Abort(nil); wait(t, c.Done()) })
			}
		}
	}()
	t.Cleanup(func() { l.Close(); wait(t, done) })
}

// silent opens n connections to addr that send nothing, from an address of the loopback network.
func silent(t testing.TB, addr netip.AddrPort, from string, n int) (all []net.Conn) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: hang}
	for range n {
		c, err := d.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return all
}

// setUp connects a raw peer and completes the set-up.
func setUp(t testing.TB, addr netip.AddrPort) {
	t.Helper()
	rawpeer.Dial(t, addr).Initiate(rawpeer.LinuxRequest())
}

// A set-up does not wait for silent peers, even if more of them connect than set-ups may be in
// progress. If it did wait, it would take longer than a raw peer's time limit.
func TestSilentPeersDelayNoOtherPeer(t *testing.T) {
	for name, from := range map[string]string{"of the same address": "127.0.0.1", "of another": "127.0.0.2"} {
		passed := t.Run(name, func(t *testing.T) {
			c := census.New(census.Config{SetupTimeout: 24 * time.Hour})
			defer c.Close()
			l := listen(t, provider(t, Config{Seats: seats.Of(c), SetupTimeout: 24 * time.Hour}))
			serving(t, l)
			silent(t, l.Addr(), from, 1500)
			setUp(t, l.Addr())
			if s := c.Stats(); s.Count[census.Evicted] == 0 {
				t.Errorf("no silent peer had to go: %+v", s)
			}
		})
		if !passed {
			return // the next case would take as long
		}
	}
}

// A peer that has set up a connection and never sends an FPDU loses it, whether or not it had
// announced that it would send first; a peer that sends keeps it.
func TestSetUpsWithoutAnFPDU(t *testing.T) {
	c := census.New(census.Config{FirstTimeout: 300 * time.Millisecond})
	defer c.Close()
	l := listen(t, provider(t, Config{Seats: seats.Of(c)}))
	plain := rawpeer.Frame{Revision: wire.Revision1}
	heard, s, _ := passiveOn(t, l, plain, nil)
	heard.WriteFPDU(heard.Send([]byte("here")))
	wait(t, s.received)
	quiet, q, _ := passiveOn(t, l, plain, nil)
	quiet.ReadReset()
	if err := q.ended(); !errors.Is(err, census.NothingHeard) {
		t.Errorf("ends by %v", err)
	}
	heard.WriteFPDU(heard.Send([]byte("still here")))
	wait(t, s.received)
	if st := c.Stats(); st.Count[census.NothingHeard] != 1 || st.Total() != 1 {
		t.Errorf("%+v", st)
	}
	await.Until(t, "the ended connection leaves its seat", func() bool { return c.Stats().Leaving == 0 })
}

// If the limit of connections is reached, the server closes a new connection before it reads from
// it. It reports an event, and counts no failed set-up.
func TestNoSeatFree(t *testing.T) {
	events := make(chan rdmacm.Event, 10)
	c := census.New(census.Config{Seats: 1})
	defer c.Close()
	p := provider(t, Config{Seats: seats.Of(c), Event: func(e rdmacm.Event) { events <- e }})
	l := listen(t, p)
	raw := rawpeer.Dial(t, l.Addr())
	raw.WriteFrame(false, rawpeer.LinuxRequest())
	r, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	k, err := r.Accept(param(newTester()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { k.Abort(nil); wait(t, k.Done()) }()
	r.Seat().Known()
	wait(t, events)
	rawpeer.Dial(t, l.Addr()).ReadEnd()
	if e := wait(t, events); e.Kind != rdmacm.EventRefused || !errors.Is(e.Err, census.AddressFull) {
		t.Errorf("event %v: %v", e.Kind, e.Err)
	}
	if n := p.counters.setupFailed.Load(); n != 0 {
		t.Errorf("%d set-ups failed", n)
	}
}

// A set-up whose rdmacm.Seat is taken for another connection ends at once, whether it waits for
// the peer's request or for Accept. It frees the seat.
func TestSetupLosesItsSeat(t *testing.T) {
	events := make(chan rdmacm.Event, 10)
	c := census.New(census.Config{Seats: 1})
	defer c.Close()
	l := listen(t, provider(t, Config{Seats: seats.Of(c), Event: func(e rdmacm.Event) { events <- e }}))
	lost := func(raw *rawpeer.Peer) {
		t.Helper()
		raw.ReadEnd()
		if e := wait(t, events); e.Kind != rdmacm.EventSetupFailed || !errors.Is(e.Err, census.Evicted) {
			t.Errorf("event %v: %v", e.Kind, e.Err)
		}
	}
	half := rawpeer.Dial(t, l.Addr())
	half.Write(requestBytes(t)[:7])
	whole := rawpeer.Dial(t, l.Addr()) // the test does not call Accept for it
	lost(half)
	whole.Write(requestBytes(t))
	last := rawpeer.Dial(t, l.Addr())
	lost(whole)
	last.CloseWrite()
	wait(t, events)
	await.Until(t, "all seats are left", func() bool { s := c.Stats(); return s.Total() == 0 && s.Leaving == 0 })
}

// Sends that must wait for the peer's first FPDU, and Sends that TCP does not take, count as
// unsent. Sends that TCP took do not, even if they cannot complete yet because an earlier RDMA
// Read is not answered.
func TestUnsent(t *testing.T) {
	raw, s := passive(t, Config{})
	const small, large = 3, 40
	slow := post(s.Conn, read(1, 2, make([]byte, 4)))
	var last <-chan result
	for range small {
		last = post(s.Conn, send([]byte("behind it")))
	}
	if n := s.Unsent(); n != small {
		t.Errorf("%d Sends are unsent before the first FPDU", n)
	}
	raw.WriteFPDU(rawpeer.Ready())
	q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
	for range small {
		raw.ReadOp(wire.Send)
	}
	await.Until(t, "what the peer has got is sent", func() bool { return s.Unsent() == 0 })
	select {
	case <-last:
		t.Error("a chain came back before the one in front of it")
	default:
	}
	raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, []byte("done")))
	good(t, slow)
	good(t, last)
	// The peer does not read, so TCP takes only some of the Sends.
	for range large {
		post(s.Conn, send(make([]byte, 1<<20)))
	}
	if n := s.Unsent(); n < large/4 || n > large {
		t.Errorf("%d of %d Sends are unsent that the peer does not read", n, large)
	}
	s.Abort(nil)
	s.ended()
	if n := s.Unsent(); n != 0 {
		t.Errorf("%d Sends are unsent after the end", n)
	}
}
