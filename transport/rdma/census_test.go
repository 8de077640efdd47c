package rdma

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// knownByAnyCall judges a peer as known when it makes any call but NULL.
func knownByAnyCall(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	j.Known = a.Header.Procedure != rpctest.NULL
	return rpc.Done
}

// granted makes a call that is answered at once, and returns the credits that the answer grants.
func (b *bench) granted(p *rdmatest.Peer, xid uint32, procedure uint32) int {
	b.t.Helper()
	m := rpctest.Message(xid, procedure, nil)
	if procedure != rpctest.NULL {
		m = rpctest.Message(xid, procedure, count(0))
	}
	h, _ := answered(b.t, b.call(p, message{xid: xid, payload: m}))
	return int(h.Credits)
}

// The server grants few credits to a peer that is not known, and all credits once the peer is
// known. It promises receives before it grants the credits for them, and no earlier than necessary.
// Rows V1-14 and V1-16 of docs/conformance.md.
func TestStrangersAreGrantedFewCredits(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Credits: 100, StrangerCredits: 7}})
	b.program.Judging = knownByAnyCall
	p := b.peer()
	for xid := range uint32(3) {
		receivesKept(t, p, 7)
		if n := b.granted(p, xid, rpctest.NULL); n != 7 {
			t.Errorf("a stranger is granted %d credits", n)
		}
	}
	for xid := range uint32(3) {
		if n := b.granted(p, 10+xid, rpctest.GET); n != 100 {
			t.Errorf("a known peer is granted %d credits", n)
		}
		receivesKept(t, p, 100)
	}
	// The receives are promised before the answer that grants credits for them.
	promised, server := 0, serverEnd(p).ID()
	for _, e := range b.provider.Log().Events() {
		switch {
		case rdmatest.Is(rdmatest.KindProvide, server)(e):
			promised += e.Count
		case rdmatest.Is(rdmatest.KindReceived, server)(e):
			promised--
		case rdmatest.IsPost(rdmacm.OpSend, server)(e):
			prefix, _ := wire.ParsePrefix(e.Bytes)
			if promised < int(prefix.Credits)+spareReceives {
				t.Errorf("%d credits are granted with %d receives promised", prefix.Credits, promised)
			}
		}
	}
}

// Without a configured number, a peer that is not known gets the default credits, but not more than
// a known peer.
func TestCreditsOfStrangers(t *testing.T) {
	for _, c := range []struct{ credits, stranger, want int }{{0, 0, 16}, {3, 0, 3}, {200, 0, 16}, {200, 50, 50}} {
		cfg, err := Config{RPC: rpc.NewServer(rpc.Config{}), Pool: newBench(t, benchConfig{}).pool,
			Credits: c.credits, StrangerCredits: c.stranger}.withDefaults()
		if err != nil || cfg.StrangerCredits != c.want {
			t.Errorf("%+v: %d, %v", c, cfg.StrangerCredits, err)
		}
	}
	if _, err := (Config{RPC: rpc.NewServer(rpc.Config{}), Pool: newBench(t, benchConfig{}).pool,
		Credits: 3, StrangerCredits: 4}).withDefaults(); err == nil {
		t.Error("a stranger is granted more than a known peer")
	}
}

// bubble runs a test under testing/synctest, with a server whose connections have seats.
func bubble(t *testing.T, limits census.Config, test func(t *testing.T, b *bench, c *census.Census)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := census.New(limits)
		t.Cleanup(c.Close)
		b := newBench(t, benchConfig{provider: rdmatest.Config{Seats: seats.Of(c)}})
		b.program.Judging = knownByAnyCall
		test(t, b, c)
	})
}

// A peer that makes no call by which it becomes known loses its connection after a minute; a
// known peer may be idle for ever.
func TestDeadlineOfStrangers(t *testing.T) {
	limits := census.Config{FirstTimeout: 10 * time.Second, CallTimeout: time.Minute}
	bubble(t, limits, func(t *testing.T, b *bench, c *census.Census) {
		silent, pings, known := b.peer(), b.peer(), b.peer()
		b.granted(known, 1, rpctest.GET)
		for xid := range uint32(5) {
			b.granted(pings, xid, rpctest.NULL)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if n := c.Stats().Count[census.NothingHeard]; n != 1 {
				t.Fatalf("%d connections ended because nothing came", n)
			}
		}
		if err := silent.End(); err == nil {
			t.Error("the silent one ended in order")
		}
		if n := c.Stats().Count[census.NothingServed]; n != 0 {
			t.Error("the one that sends NULL ended before the minute was over")
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := c.Stats(); s.Count[census.NothingServed] != 1 || s.Total() != 1 {
			t.Errorf("after a minute: %+v", s)
		}
		pings.End()
		time.Sleep(24 * time.Hour)
		b.alive(known)
	})
}

// A peer that is not known keeps its connection while the server works on its call, even if that
// takes longer than the deadline.
func TestCallOfAStrangerMayTakeLong(t *testing.T) {
	limits := census.Config{FirstTimeout: 10 * time.Second, CallTimeout: time.Minute}
	bubble(t, limits, func(t *testing.T, b *bench, c *census.Census) {
		b.program.Judging = nil // no peer becomes known
		p := b.peer()
		p.Send(message{xid: 1, payload: rpctest.Message(1, rpctest.STALL, count(1))}.bytes())
		<-b.program.Arrived(1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := c.Stats(); s.Total() != 1 {
			t.Errorf("its connection ended: %+v", s)
		}
		b.program.Release(1)
		answered(t, p.Receive())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := c.Stats(); s.Total() != 0 {
			t.Errorf("it lasts, although its call was answered and it is not known: %+v", s)
		}
		p.End()
	})
}

// If the Census evicts a peer for a newcomer, the server ends the peer's connection and
// sends it no message.
func TestEviction(t *testing.T) {
	c := census.New(census.Config{Seats: 2})
	defer c.Close()
	b := newBench(t, benchConfig{provider: rdmatest.Config{Seats: seats.Of(c)}})
	b.program.Judging = knownByAnyCall
	known, stranger := b.peer(), b.peer()
	b.granted(known, 1, rpctest.GET)
	b.alive(stranger)
	ended := serverEnd(stranger)
	newcomer := b.peer()
	if err := stranger.End(); err == nil {
		t.Error("the stranger's connection ended in order")
	}
	<-ended.Done()
	aborts := 0
	for _, e := range b.provider.Log().Events() {
		if e.Kind == rdmatest.KindAbort && e.Conn == ended.ID() {
			if aborts++; !errors.Is(e.Err, census.Evicted) {
				t.Errorf("aborted for %v", e.Err)
			}
		}
	}
	if aborts != 1 {
		t.Errorf("aborted %d times", aborts)
	}
	b.alive(known)
	b.alive(newcomer)
}

// If many more peers than there are seats connect and never send an FPDU, the server ends their
// connections, and serves a client from another address at once.
func TestManySetUpsWithoutAnFPDU(t *testing.T) {
	const places, peers = 1000, 3000
	c := census.New(census.Config{Seats: places, SetupTimeout: 10 * time.Second, FirstTimeout: 2 * time.Second})
	defer c.Close()
	device, err := iwarp.New(iwarp.Config{Seats: seats.Of(c)})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, benchConfig{device: device})
	b.program.Judging = knownByAnyCall
	// The raw peer uses a revision without ready-to-receive messages.
	frame := rawpeer.Frame{Revision: iwarpwire.Revision1}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	most := 0
	for range peers {
		s, err := d.Dial("tcp", b.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		p := rawpeer.New(t, s)
		p.WriteFrame(false, frame)
		st := c.Stats()
		most = max(most, st.Total()+st.Leaving)
	}
	client := b.dial(DialConfig{})
	if err := get(t, client, 5, nil); err != nil {
		t.Errorf("a client from elsewhere: %v", err)
	}
	if bound := places + census.Spare(places); most > bound {
		t.Errorf("%d connections at a time, %d at most", most, bound)
	}
	await.Until(t, "the silent connections end", func() bool { return b.server.Stats().Connections.Load() == 1 })
	if err := get(t, client, 5, nil); err != nil {
		t.Errorf("a known peer after the silent ones ended: %v", err)
	}
}
