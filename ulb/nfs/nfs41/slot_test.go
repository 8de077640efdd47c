package nfs41

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// stalling is a Minor with two test operations: one waits until the test releases it, and one
// panics.
type stalling struct {
	*Minor
	begun, release chan struct{}
	over           chan struct{} // closed at the end of the test, also after a failure
	runs           int
}

func (m *stalling) Operations() []nfs4.Operation {
	return append(m.Minor.Operations(), nfs4.Operation{Number: wire.OpDelegpurge, Once: true, Run: func(k *nfs4.Compound) nfs4.Status {
		k.Args.Uint64()
		if k.Call.Try {
			return k.Block(nil)
		}
		m.runs++
		select {
		case m.begun <- struct{}{}:
		case <-m.over:
		}
		select {
		case <-m.release:
		case <-m.over:
		}
		return wire.NFS4OK
	}}, nfs4.Operation{Number: wire.OpLayoutcommit, Run: func(*nfs4.Compound) nfs4.Status { panic("as the test wants it") }})
}

func stallingSite(t *testing.T) (*nfs4test.Site, *stalling) {
	m := &stalling{begun: make(chan struct{}, 1), release: make(chan struct{}, 1), over: make(chan struct{})}
	s := nfs4test.New(t, nfs4test.Config{Minors: func(sm *state.Manager) [3]nfs4.Minor {
		m.Minor = New(Config{State: sm})
		return [3]nfs4.Minor{nil, m, nil}
	}})
	t.Cleanup(func() { close(m.over) }) // runs before the end of the server, which waits for calls
	return s, m
}

var purge = op(wire.OpDelegpurge, &wire.DelegPurge4Args{})

// While a request runs, the server refuses its repetition and other requests in its slot, and does
// not evict its client.
func TestRequestUnderWay(t *testing.T) {
	site, m := stallingSite(t)
	p := site.Peer(1)
	s := newClientSession(p, "client")
	seq := *s.sequenceOp(0)
	message := p.Message("", op(wire.OpSequence, &seq), purge)
	running := p.Begin(bytes.Clone(message))
	await.Receive(t, "a request is under way", m.begun)
	if !m.state.Client(s.client).Busy() {
		t.Error("the client does nothing")
	}
	other := site.Peer(1)
	want(t, "the same again", other.Compound(op(wire.OpSequence, &seq), purge), wire.NFS4ErrDelay, 1)
	next := seq
	next.Sequenceid++
	want(t, "the next", other.Compound(op(wire.OpSequence, &next), purge), wire.NFS4ErrSeqMisordered, 1)
	m.release <- struct{}{}
	want(t, "the first", p.Parse(p.End(running)), wire.NFS4OK, 2)
	want(t, "the same again", other.Compound(op(wire.OpSequence, &seq), purge), wire.NFS4OK, 2)
	if m.runs != 1 || m.state.Client(s.client).Busy() {
		t.Errorf("done %d times", m.runs)
	}
}

// A session may end while a request in it is running.
func TestSessionEndsUnderARequest(t *testing.T) {
	site, m := stallingSite(t)
	p := site.Peer(1)
	s := newClientSession(p, "client")
	running := p.Begin(p.Message("", op(wire.OpSequence, s.sequenceOp(5)), purge))
	await.Receive(t, "a request is under way", m.begun)
	c := m.state.Client(s.client)
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
	if !c.Busy() {
		t.Error("the request does not keep its client's lease from running out")
	}
	m.release <- struct{}{}
	want(t, "the request", p.Parse(p.End(running)), wire.NFS4OK, 2)
	if c.Busy() {
		t.Error("the client is busy with nothing")
	}
	if m.cache.aside.Held() != 0 || m.cache.others.Held() != 0 {
		t.Errorf("%d and %d bytes are left", m.cache.aside.Held(), m.cache.others.Held())
	}
}

// If a session has no connection left, a running compound ends at its next operation with
// NFS4ERR_DELAY, and the client gets that reply when it reconnects. If the session still has
// another connection, the compound goes on.
func TestCompoundOfASessionWithoutConnectionEnds(t *testing.T) {
	for _, left := range []bool{false, true} {
		site, m := stallingSite(t)
		p, other := site.Peer(1), site.Peer(1)
		s := newClientSession(p, "client")
		if left {
			want(t, "another connection", other.Compound(op(wire.OpSequence, s.sequenceOp(1))), wire.NFS4OK, 1)
		}
		seq := *s.sequenceOp(0)
		ops := []nfs4test.Op{op(wire.OpSequence, &seq), purge, op(wire.OpPutRootFH), op(wire.OpSaveFH), op(wire.OpRestoreFH), purge}
		running := p.Begin(p.Message("", ops...))
		await.Receive(t, "a request is under way", m.begun)
		p.Conn.Close()
		m.release <- struct{}{}
		if left {
			await.Receive(t, "the second of the long operations is under way", m.begun)
			m.release <- struct{}{}
		}
		p.End(running)
		status, n, runs := wire.NFS4ErrDelay, 3, 1
		if left {
			status, n, runs = wire.NFS4OK, 6, 2
		}
		want(t, "the same again", site.Peer(1).Compound(ops...), status, n)
		if m.runs != runs {
			t.Errorf("done %d times, want %d", m.runs, runs)
		}
	}
}

// After an operation has panicked, its slot accepts the next request.
func TestSlotOutlivesAPanic(t *testing.T) {
	m := &stalling{}
	site := nfs4test.New(quiet{t}, nfs4test.Config{Minors: func(sm *state.Manager) [3]nfs4.Minor {
		m.Minor = New(Config{State: sm})
		return [3]nfs4.Minor{nil, m, nil}
	}})
	p := site.Peer(1)
	s := newClientSession(p, "client")
	seq := s.sequenceOp(0)
	c := p.End(p.Begin(p.Message("", op(wire.OpSequence, seq), nfs4test.Op{Number: wire.OpLayoutcommit})))
	if _, err := c.Results(); err == nil {
		t.Fatal("no panic")
	}
	want(t, "again", s.with(seq, nfs4test.Op{Number: wire.OpLayoutcommit}), wire.NFS4ErrRetryUncachedRep, 2)
	s.seq[0]++
	want(t, "the next", s.run(rootOp), wire.NFS4OK, 2)
}

// quiet is a TB that ignores the errors that a panic reports.
type quiet struct{ testing.TB }

func (q quiet) Errorf(string, ...any) {}

// A client whose lease ran out can use its session again, unless another client wanted its state.
// After an eviction the session does not exist any more.
func TestClientsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, m := site(t, Config{}, state.Config{})
		s := newClientSession(site.Peer(1), "client")
		time.Sleep(3 * site.State.Lease())
		want(t, "after three leases", s.run(rootOp), wire.NFS4OK, 2)
		c := m.state.Client(s.client)
		if err := m.state.Evict(c); err != nil || m.state.Client(s.client) == nil {
			t.Errorf("evicted with a lease: %v", err)
		}
		time.Sleep(3 * site.State.Lease())
		if err := m.state.Evict(c); err != nil || m.state.Client(s.client) != nil {
			t.Errorf("not evicted: %v", err)
		}
		want(t, "after it was evicted", s.run(rootOp), wire.NFS4ErrBadSession, 1)
		is(t, "CREATE_SESSION", create(s.Peer, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
		if m.cache.aside.Held() != 0 {
			t.Errorf("%d bytes are left", m.cache.aside.Held())
		}
	})
}

// The memory for replies is limited. Before the limit is reached, the server tells clients to use
// fewer slots. A client that obeys can go on. A client that does not obey gets NFS4ERR_DELAY,
// except in slot 0. A cached reply that the client may still ask for is never lost (RFC 8881
// §2.10.6.1.3).
func TestMemoryForReplies(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		site, m := site(t, Config{CacheMemory: 1 << 20}, state.Config{})
		p := site.Peer(1)
		getFHs := []nfs4test.Op{rootOp}
		for range 100 {
			getFHs = append(getFHs, op(wire.OpGetFH))
		}
		greedy := func(name string) *session {
			args := createArgs(newClient(p, name, 1), 1)
			args.ForeChanAttrs.Maxrequests = 256
			return sessionOf(p, args)
		}
		big, small := greedy("big"), greedy("small")
		want(t, "a request of a modest client", small.with(small.sequenceOp(1), rootOp), wire.NFS4OK, 2)
		target := big.fore.Maxrequests - 1
		least, top, delayed := target, int64(0), 0
		latest := map[uint32]*wire.Sequence4Args{}
		for range 8 {
			for slot := uint32(0); slot < big.fore.Maxrequests && (slot <= target || !obeys); slot++ {
				seq := big.sequenceOp(slot)
				r := big.with(seq, getFHs...)
				if r.Status == wire.NFS4ErrDelay && len(r.Ops) == 1 && slot > 0 && !obeys {
					delayed++
					continue
				}
				want(t, fmt.Sprint("a request of a greedy client in slot ", slot), r, wire.NFS4OK, len(getFHs)+1)
				var res wire.Sequence4Res
				r.Ops[0].Into(t, &res)
				big.seq[slot]++
				latest[slot] = seq
				target = res.ResOK.TargetHighestSlotid
				least, top = min(least, target), max(top, m.cache.others.Held())
				if t.Failed() {
					return
				}
			}
		}
		if top > m.cache.half || least > big.fore.Maxrequests*2/3 || delayed == 0 == !obeys {
			t.Errorf("obeys %v of %d slots: %d bytes were taken, of %d; the fewest slots to be used: %d; %d requests wait", obeys, big.fore.Maxrequests, top, m.cache.half, least, delayed)
		}
		for slot, seq := range latest {
			if !obeys || slot <= target {
				want(t, fmt.Sprint("the same again in slot ", slot), big.with(seq, getFHs...), wire.NFS4OK, len(getFHs)+1)
			}
		}
		// The client of the session small is not affected by the requests in big.
		want(t, "the modest client's request again", small.with(small.sequenceOp(1), rootOp), wire.NFS4OK, 2)
		for _, s := range []*session{big, small} {
			is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
		}
		if n := m.cache.others.Held() + m.cache.aside.Held(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
}

// A request that tells the server that the client uses few slots may arrive after a later request
// in a higher slot, because connections have no common order. The reply in the higher slot stays,
// because the client may still ask for it (RFC 8881 §2.10.6.1). The server drops replies from
// before it told the client to use few slots.
func TestRequestThatIsOvertakenTakesNoReply(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	s := newClientSession(site.Peer(1), "client")
	in := func(slot, highest uint32) *wire.Sequence4Args {
		args := s.sequenceOp(slot)
		args.HighestSlotid = highest
		s.seq[slot]++
		return args
	}
	tells := func(r *nfs4test.Result) (target uint32) {
		t.Helper()
		want(t, "a request", r, wire.NFS4OK, 2)
		var res wire.Sequence4Res
		r.Ops[0].Into(t, &res)
		return res.ResOK.TargetHighestSlotid
	}
	first := in(3, 3)
	tells(s.with(first, rootOp))
	share := m.cache.shares[clientaddr.Of(s.Conn.Peer.Addr())]
	share.others.Add(m.cache.half)
	if target := tells(s.with(in(0, 3), rootOp)); target > 1 {
		t.Fatalf("the client may use slots to %d", target)
	}
	share.others.Add(-m.cache.half)
	overtaken, later := in(0, 0), in(2, 2)
	tells(s.with(later, rootOp))
	tells(s.with(overtaken, rootOp))
	want(t, "the later one again", s.with(later, rootOp), wire.NFS4OK, 2)
	want(t, "the one that the client has its reply to", s.with(first, rootOp), wire.NFS4ErrRetryUncachedRep, 2)
}

// BenchmarkSequence serves compounds with only SEQUENCE, over one connection.
func BenchmarkSequence(b *testing.B) {
	site, _ := site(b, Config{}, state.Config{})
	p := site.Peer(1)
	s := newClientSession(p, "client")
	seq := s.sequenceOp(0)
	seq.Cachethis = false
	message := p.Message("", op(wire.OpSequence, seq))
	at := bytes.LastIndex(message, s.id[:]) + 16
	c := rpctest.NewCall(p.Conn, message)
	n := uint32(0)
	for b.Loop() {
		n++
		message[at], message[at+1], message[at+2], message[at+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
		c.Again(p.Conn, message)
		c.Run(site.RPC)
	}
	if d, err := c.Results(); err != nil || wire.NFSStat4(d.Int32()) != wire.NFS4OK {
		b.Fatal(err)
	}
}
