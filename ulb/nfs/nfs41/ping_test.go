package nfs41

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// waits returns the number of calls that the client has not answered.
func (k *client41) waits() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiting)
}

// The server has at most one ping to a client under way, over the latest connection, however often
// the client binds connections. At the end of the session the server cancels the ping.
func TestOneQuestionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, other := &client41{silent: true}, &client41{silent: true}
		s, far := backSession(t, k, nil)
		for range 100 {
			is(t, "BIND_CONN_TO_SESSION", bind(far.Peer, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
			want(t, "BACKCHANNEL_CTL", far.run(backchannelCtl(8, secNone)), wire.NFS4OK, 2)
		}
		if n := k.waits(); n != 1 {
			t.Errorf("%d questions to one connection", n)
		}
		p := far.Site.Peer(1)
		p.Conn.SetCaller(other)
		is(t, "BIND_CONN_TO_SESSION", bind(p, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
		if k.waits() != 0 || other.waits() != 1 {
			t.Errorf("%d questions to the connection before, %d to the latest", k.waits(), other.waits())
		}
		time.Sleep(callTime + time.Second)
		if other.waits() != 0 || Answered(s.Client()) {
			t.Error("the question is not given up")
		}
		other.speak(false)
		is(t, "BIND_CONN_TO_SESSION", bind(p, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
		if !Answered(s.Client()) {
			t.Error("the client is not asked again")
		}
		is(t, "BIND_CONN_TO_SESSION", bind(far.Peer, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
		if k.waits() != 1 {
			t.Error("the client is not asked over its first connection")
		}
		is(t, "DESTROY_SESSION", single(far.Peer, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: far.id}), nil), wire.NFS4OK)
		if k.waits() != 0 {
			t.Error("a question outlives its session")
		}
	})
}

// If a call gets its slot only after its time limit, it ends as well. The server cancels it after
// its start, not before.
func TestCallsThatWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &client41{silent: true}
		s, _ := backSession(t, k, func(a *wire.CreateSession4Args) { a.BackChanAttrs.Maxrequests = 1 })
		k.slow = time.Millisecond
		done := make(chan outcome, 5)
		for range cap(done) {
			s.Call(recallSlot(done))
		}
		time.Sleep(time.Minute)
		if len(done) != cap(done) {
			t.Errorf("%d of %d calls have ended", len(done), cap(done))
		}
	})
}

// The memory for calls to the clients of an address, for further connections of their sessions, and
// for their replies has one common limit. When the calls and connections end, the memory is free
// again.
func TestCallsAndConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, m := site(t, Config{CacheMemory: 256 << 10}, state.Config{})
		p := site.Peer(1)
		k := &client41{silent: true}
		p.Conn.SetCaller(k)
		args := createArgs(newClient(p, "client", 1), 1)
		args.Flags, args.SecParms = wire.CreateSession4FlagConnBackChan, securityList(t, secNone)
		far := sessionOf(p, args)
		s := m.sessions.find(&far.id)
		if n := m.cache.others.Held(); n != 0 {
			t.Errorf("%d bytes are taken by one connection", n)
		}
		refused := 0
		var conns []*rpc.Conn
		for range 100 {
			q := site.Peer(1)
			if bind(q, far.id, wire.Cdfc4Fore).Status == wire.NFS4OK {
				conns = append(conns, q.Conn)
			}
		}
		if n := m.cache.others.Held(); n != int64(len(conns))*bindingCost || len(conns) == 0 {
			t.Errorf("%d bytes are taken by %d further connections", n, len(conns))
		}
		done := make(chan outcome, 1000)
		for range cap(done) {
			s.Call(recallSlot(done))
		}
		for refused < cap(done) {
			if o := <-done; o.err == ErrTooMany {
				refused++
			} else if o.err == ErrUnanswered {
				break
			} else {
				t.Fatalf("%+v", o)
			}
		}
		if most := int64(128<<10) / 2 / sizeCall; refused < cap(done)-int(most) || refused == cap(done) {
			t.Errorf("%d of %d calls are refused", refused, cap(done))
		}
		for range cap(done) - refused - 1 {
			<-done
		}
		if n := m.cache.others.Held(); n != int64(len(conns))*bindingCost {
			t.Errorf("%d bytes are taken when the calls have ended", n)
		}
		for _, c := range conns[:len(conns)/2] {
			c.Close()
		}
		if n := m.cache.others.Held(); n != int64(len(conns)-len(conns)/2)*bindingCost {
			t.Errorf("%d bytes are taken when connections have ended", n)
		}
		is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: far.id}), nil), wire.NFS4OK)
		if n := m.cache.others.Held(); n != 0 {
			t.Errorf("%d bytes are taken when the session has ended", n)
		}
	})
}

// The memory limit allows no more sessions than the table has places. So an address with many very
// small sessions leaves places to other addresses.
func TestSmallSessionsLeavePlaces(t *testing.T) {
	for _, memory := range []int64{1 << 20, 128 << 20, 1 << 40} {
		var c cache
		c.init(memory)
		if n := c.aside.Size / (shape{1, 0}).aside(); n > chunks*chunkSize {
			t.Errorf("%d bytes are for %d sessions, the table is for %d", memory, n, chunks*chunkSize)
		}
	}
}
