package rdma

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// setPatience sets creditPatience until the function that it returns is called.
func setPatience(d time.Duration) (restore func()) {
	before := creditPatience
	creditPatience = d
	return func() { creditPatience = before }
}

// A peer that does not finish an RPC message in parts loses its connection, and the parts are forgotten.
func TestPartsDoNotWaitForever(t *testing.T) {
	defer setPatience(time.Millisecond)()
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	call := echo(5, 1000)
	p.send(part(wire.TypeCallMiddle, 5, len(call)-400, call[:400]))
	wantEnd(t, p.p, "the client keeps its connection")
	await.Until(t, "the connection is gone", func() bool { return b.server.Stats().Connections.Load() == 0 })
	if n := b.server.Stats().Timeouts(); n != 1 {
		t.Errorf("%d connections have stalled", n)
	}
	if n := b.pool.Stats().Charged; n != 0 {
		t.Errorf("%d bytes are charged", n)
	}
}

// The time for an RPC message in parts does not run while this side keeps back the permission for the next part. It
// runs if the peer itself prevents the grant.
func TestPartsWaitForPermission(t *testing.T) {
	defer setPatience(time.Hour)()
	long := func() *modelSide {
		s := newModel(t, 4, 4)[1]
		s.v.run.stream, s.v.received, s.v.runBegan = new(stream), s.v.said, time.Now().Add(-2*time.Hour)
		return s
	}
	s := long()
	s.v.may = s.v.said
	s.v.lookAtRun()
	if time.Since(s.v.runBegan) > time.Hour {
		t.Error("the time runs")
	}
	s.v.closed()

	s = long()
	s.v.may, s.v.sent = s.v.said+1, s.v.limit+1
	var why error
	s.ends = func(err error) { why = err }
	s.v.lookAtRun()
	if why != errNoParts {
		t.Errorf("the connection ends with %v", why)
	}
}

// The XID of an RPC message that failed can be used again after a while, although the last part never came.
func TestFailedXIDIsForgotten(t *testing.T) {
	defer setPatience(time.Millisecond)()
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	p.send(part(wire.TypeCallMiddle, 5, 0, make([]byte, 40)))
	p.wantError2(5, wire.Version2, wire.Err2InvalCont)
	v := b.connection().framing.(*version2)
	await.Until(t, "the XID is forgotten", func() bool {
		p.alive() // the server has read the message, and so v.sequence is at rest
		return !v.sequence.Failing()
	})
	p.send(call2(5, rpctest.NULL))
	if q, m := p.next(); q.XID != 5 || q.Type != wire.TypeReplyInline {
		t.Errorf("NULL is answered by % x", m)
	}
}

// A call that the server never permits has a time-out, although no other call is under way.
func TestQueuedCallsTimeOut(t *testing.T) {
	s, _ := newScript2(t, DialConfig{Timeout: 4 * time.Millisecond}, accepts2(1)) // the proposal alone
	if r := ended(t, s.start(null())); !errors.Is(r.err, rpc.ErrCallLost) {
		t.Errorf("the call ends with %v", r.err)
	}
	if n := s.client.stats.Timeouts(); n != 1 {
		t.Errorf("%d connections have timed out", n)
	}
}

// A call that waited on a connection that ended has its whole time on the next one.
func TestQueuedCallBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScript2(t, DialConfig{Timeout: 20 * time.Second, Reconnect: true, redial: time.Millisecond}, accepts2(1))
		done := s.start(null())
		time.Sleep(19 * time.Second)
		s.p.Conn().Abort(nil)
		s.p = s.accept(nil)
		s.p.Receive()
		s.sendRaw(accepts2(1))
		time.Sleep(15 * time.Second)
		s.sendRaw(permits(message2(wire.TypeGrant, 0, nil, nil), 4))
		q, _ := s.next2()
		s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 5))
		if r := ended(t, done); r.err != nil {
			t.Error(r.err)
		}
		s.client.Close()
	})
}

// A call in parts that waits for credits does not end the connection before the calls have timed out that were sent:
// a server may be busy with them for as long.
func TestCallInPartsWaitsForASlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newScript2(t, DialConfig{}, accepts2(3)) // the proposal and two messages
		one := s.start(null())
		q, _ := s.next2()
		x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(9000)) })
		x.MaxArgs = 9008
		long := s.start(x)
		time.Sleep(DefaultTimeout - time.Second)
		s.reply2(q.XID, 9)
		ended(t, one)
		for {
			if q, _ = s.next2(); q.Type == wire.TypeCallInline {
				break
			}
		}
		s.sendRaw(permits(message2(wire.TypeReplyInline, q.XID, nil, opaqueReply(q.XID, pattern(4))), 9))
		if r := ended(t, long); r.err != nil {
			t.Error(r.err)
		}
		s.client.Close()
	})
}
