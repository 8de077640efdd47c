package rdma

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A modelSide is one end of a connection of version 2 whose device puts each message into the inbox of the other
// end, until the test delivers it. It checks that no message is sent without permission and that each has a receive.
// It makes calls and answers them without an RPC program.
type modelSide struct {
	rdmacm.Conn
	t     testing.TB
	name  string
	v     *version2
	other *modelSide
	full  *mem.Ledger // makes the client's calls occupy too much memory
	// posting, unless nil, is called while the device takes a message. ends, unless nil, is called when this side ends
	// the connection; otherwise that is an error.
	posting func()
	ends    func(error)

	mu       sync.Mutex
	receives int      // promised to the peer
	arriving [][]byte // sent by the peer, and not delivered
	open     map[uint32]bool
	calls    []uint32 // of the peer, to be answered
	xid      uint32
}

func (s *modelSide) Provide(n, _ int) {
	s.mu.Lock()
	s.receives += n
	s.mu.Unlock()
}

func (s *modelSide) Peer() netip.AddrPort { return netip.AddrPort{} }

func (s *modelSide) Limits() rdmacm.Limits { return rdmacm.Limits{} }

func (s *modelSide) Abort(err error) {
	if s.ends != nil {
		s.ends(err)
		return
	}
	s.t.Errorf("%s: the connection ends: %v", s.name, err)
}

func (s *modelSide) carry(local [][]byte) {
	if s.posting != nil {
		s.posting()
	}
	var b []byte
	for _, piece := range local {
		b = append(b, piece...)
	}
	o := s.other
	o.mu.Lock()
	o.arriving = append(o.arriving, b)
	o.mu.Unlock()
}

func (s *modelSide) SendShort(local [][]byte, _ uint32) bool {
	s.carry(local)
	return true
}

func (s *modelSide) Post(c *rdmacm.Chain) {
	s.carry(c.Work[len(c.Work)-1].Local)
	c.Done(c, nil, -1)
}

// newModelSide returns an end that is ready for this many messages.
func newModelSide(t testing.TB, name string, dialed bool, ready int) *modelSide {
	s := &modelSide{t: t, name: name, receives: ready + 1, open: map[uint32]bool{}, full: new(mem.Ledger)}
	k := newConnection(wire.PrivateData{SendSize: 1024, ReceiveSize: 4096}, new(Stats), nil)
	k.device, k.dialed, k.maxLocal, k.sendLimit, k.receiveLimit = s, dialed, 64, 1024, 1024
	pool, err := mem.NewPool(mem.Config{Ceiling: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	k.responder = &responder{k: k, conn: new(rpc.Conn), pool: pool, share: pool.OpenShare(name, nil)}
	k.responder.conn.MarkKnown()
	k.responder.ledger.Open(k.responder.share)
	other := pool.OpenShare(name, nil)
	s.full.Open(other)
	k.granted.Store(uint32(ready))
	k.eased = k.responder.eased
	newRequester(k, new(caller), 64)
	s.v = newVersion2(k, uint32(ready))
	k.framing = s.v
	s.v.announced, s.v.unapplied, s.v.released, s.v.reverse = true, false, true, true
	s.v.sequence.Admit(wire.Prefix2{Type: wire.TypeConnpropFinal})
	return s
}

// call sends a call of n bytes, if it may.
func (s *modelSide) call(n int) bool {
	if !s.v.mayCall() {
		return false
	}
	s.mu.Lock()
	s.xid++
	xid := s.xid
	s.open[xid] = true
	s.mu.Unlock()
	q := s.v.k.requester
	q.mu.Lock()
	q.pending.insert(&exchange{xid: xid}) // parts are taken only of a reply for which a call waits
	q.mu.Unlock()
	o := s.message(xid, n)
	o.sent = ignoreOutcome
	s.v.post(o)
	return true
}

// message returns a call of n bytes. Its caller sets sent.
func (s *modelSide) message(xid uint32, n int) *outbound {
	o := new(outbound)
	o.init(64, nil)
	o.role = roleCall
	o.setHeaderSize(s.v.callSize(&wire.Lists{}, false))
	s.v.putCall(o.head, xid, &wire.Lists{}, 0, false)
	o.local = append(o.local, make([]byte, n))
	return o
}

// answer answers a call of the peer with n bytes. The result is false if there is none.
func (s *modelSide) answer(which, n int) bool {
	s.mu.Lock()
	if len(s.calls) == 0 {
		s.mu.Unlock()
		return false
	}
	which %= len(s.calls)
	xid := s.calls[which]
	s.calls = append(s.calls[:which], s.calls[which+1:]...)
	s.mu.Unlock()
	k := s.v.k
	over := func(error, int) {
		k.leave()
		k.responder.eased()
	}
	o := new(outbound)
	o.init(64, over)
	o.role = roleAnswer
	o.setHeaderSize(wire.MinReplyInline)
	copy(o.head, message2(wire.TypeReplyInline, xid, nil, nil))
	o.local = append(o.local, make([]byte, n))
	if s.v.post(o) {
		over(nil, -1)
	}
	return true
}

// deliver passes the oldest message that has not arrived. The result is false if there is none. Only one goroutine
// may deliver to a side at a time.
func (s *modelSide) deliver() bool {
	s.mu.Lock()
	if len(s.arriving) == 0 {
		s.mu.Unlock()
		return false
	}
	b := s.arriving[0]
	s.arriving = s.arriving[1:]
	s.receives--
	if s.receives < 0 {
		s.t.Errorf("%s: no receive is left for a message", s.name)
	}
	s.mu.Unlock()
	k := s.v.k
	m := s.v.read(&rdmacm.Recv{Bytes: b, Free: func(*rdmacm.Recv) {}})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.kind {
	case kindCall:
		if m.fault != faultNone {
			s.t.Errorf("%s: call %d: %v", s.name, m.xid, m.fault)
		}
		k.enter()
		s.calls = append(s.calls, m.xid)
	case kindReply:
		if !s.open[m.xid] {
			s.t.Errorf("%s: a reply to %d", s.name, m.xid)
		}
		delete(s.open, m.xid)
		q := s.v.k.requester
		q.mu.Lock()
		q.pending.remove(m.xid)
		q.mu.Unlock()
	case kindDrop, kindError:
		s.t.Errorf("%s: %v", s.name, m.fault)
	}
	return true
}

// quiet checks an end at which nothing happens any more.
func (s *modelSide) quiet() {
	s.t.Helper()
	s.v.mu.Lock()
	waiting, account := s.v.waiting, s.v.credits2
	running, owed, granting := s.v.running, s.v.owed, s.v.granting
	s.v.mu.Unlock()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s: %+v, running %v, owed %v, granting %v", s.name, account, running, owed, granting)
		}
	}()
	if waiting > 0 || len(s.open) > 0 {
		s.t.Errorf("%s: %d messages wait, %d calls are not answered: %+v", s.name, waiting, len(s.open), account)
	}
	if !s.v.mayCall() {
		s.t.Errorf("%s: no call is permitted: %+v", s.name, account)
	}
	if int(account.may+account.kept-account.received)+1 != s.receives {
		s.t.Errorf("%s: %d receives: %+v", s.name, s.receives, account)
	}
}

func newModel(t testing.TB, client, server int) (ends [2]*modelSide) {
	ends[0], ends[1] = newModelSide(t, "client", true, client), newModelSide(t, "server", false, server)
	ends[0].other, ends[1].other = ends[1], ends[0]
	ends[0].xid, ends[1].xid = 1000, 1<<20
	// By now the set-up would have told each end the limit of the other one.
	for i, e := range ends {
		e.v.said, e.v.limit = uint32([...]int{client, server}[i]), uint32([...]int{client, server}[1-i])
	}
	return ends
}

// pause lets other goroutines run. The result is true if over is closed.
func pause(over <-chan struct{}) bool {
	runtime.Gosched()
	select {
	case <-over:
		return true
	default:
		return false
	}
}
