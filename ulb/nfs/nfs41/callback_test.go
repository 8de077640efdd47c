package nfs41

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func TestCallback(t *testing.T) { inEachMinor(t, callback) }

func callback(t *testing.T, minor uint32) {
	k := &client41{minor: minor}
	s, far := backSession(t, k, nil)
	if k.nulls != 1 || !Answered(s.Client()) || !Reachable(s.Client()) {
		t.Errorf("the client was asked %d times whether it answers", k.nulls)
	}
	done := make(chan outcome, 3)
	for i := range 3 {
		c := recallSlot(done)
		if i == 2 {
			Call(s.Client(), c)
		} else {
			s.Call(c)
		}
		if o := <-done; o != (outcome{}) {
			t.Errorf("%+v", o)
		}
	}
	if !slices.Equal(k.seen(), [][2]uint32{{1, 10}, {2, 10}, {3, 10}}) {
		t.Errorf("seen %v", k.seen())
	}
	if c := k.calls[0]; c.program != 0x40000000 || c.version != 1 || c.flavor != rpc.AuthSys || c.minor != minor || c.ident != 0 ||
		c.sequence.Sessionid != far.id || c.sequence.Slotid != 0 || c.sequence.Cachethis || c.recall.TargetHighestSlotid != 3 {
		t.Errorf("%+v", c)
	}
	if r := far.run(); flagsOf(t, r) != 0 {
		t.Errorf("flags %#x", flagsOf(t, r))
	}
}

func flagsOf(t testing.TB, r *nfs4test.Result) uint32 {
	t.Helper()
	var res wire.Sequence4Res
	r.Ops[0].Into(t, &res)
	return res.ResOK.StatusFlags
}

// BACKCHANNEL_CTL changes the program number and the credential of calls.
func TestBackchannelCtl(t *testing.T) { inEachMinor(t, backchannelControl) }

func backchannelControl(t *testing.T, minor uint32) {
	k := &client41{minor: minor}
	s, far := backSession(t, k, nil)
	want(t, "an unknown context", far.run(backchannelCtl(7, secGSS)), wire.NFS4ErrNoEnt, 2)
	want(t, "another program", far.run(backchannelCtl(8, secNone)), wire.NFS4OK, 2)
	done := make(chan outcome, 1)
	s.Call(recallSlot(done))
	if o := <-done; o != (outcome{}) || k.calls[0].program != 8 || k.calls[0].flavor != rpc.AuthNone {
		t.Errorf("%+v: %+v", o, k.calls)
	}
}

// SEQUENCE reports to a client that it does not answer calls. When the client binds a connection
// again, the server sends a ping over that connection. When the client has answered it, calls
// succeed again.
func TestSilentClient(t *testing.T) {
	inEachMinor(t, func(t *testing.T, minor uint32) {
		synctest.Test(t, func(t *testing.T) { silentClient(t, minor) })
	})
}

func silentClient(t *testing.T, minor uint32) {
	k := &client41{minor: minor, silent: true}
	s, far := backSession(t, k, func(a *wire.CreateSession4Args) { a.BackChanAttrs.Maxrequests = 2 })
	if Answered(s.Client()) {
		t.Error("a silent client has answered")
	}
	begun := time.Now()
	done := make(chan outcome, 5)
	for range 3 {
		s.Call(recallSlot(done))
	}
	for range 3 {
		if o := <-done; o.err != ErrUnanswered {
			t.Errorf("%+v", o)
		}
	}
	if d := time.Since(begun); d > callTime+time.Second {
		t.Errorf("after %v", d)
	}
	const down = wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession
	if got := flagsOf(t, far.run()); got != down {
		t.Errorf("flags %#x", got)
	}
	k.speak(false)
	is(t, "BIND_CONN_TO_SESSION", bind(far.Peer, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
	if got := flagsOf(t, far.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	s.Call(recallSlot(done))
	if o := <-done; o != (outcome{}) {
		t.Errorf("%+v", o)
	}
	// The server did not know whether the client had seen the earlier call in the slot, so it sends
	// a probe first.
	if !slices.Equal(k.seen(), [][2]uint32{{1, 0}, {2, 10}}) {
		t.Errorf("seen %v", k.seen())
	}
}

// SEQUENCE reports that a session has no connection for calls. Until the client binds one, calls
// fail with ErrNoPath.
func TestLostBackchannel(t *testing.T) {
	k := &client41{}
	s, far := backSession(t, k, nil)
	old := far.Peer
	far.Peer = far.Site.Peer(1)
	if got := flagsOf(t, far.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	old.Conn.Close()
	done := make(chan outcome, 1)
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("%+v", o)
	}
	const down = wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession
	if got := flagsOf(t, far.run()); got != down {
		t.Errorf("flags %#x", got)
	}
	// If another session of the client has a connection, calls use that one.
	p := far.Site.Peer(1)
	p.Conn.SetCaller(&client41{})
	args := createArgs(far.client, 2)
	args.Flags = wire.CreateSession4FlagConnBackChan
	args.SecParms = securityList(t, secNone)
	second := sessionOf(p, args)
	if got := flagsOf(t, far.run()); got != wire.Seq4StatusCBPathDownSession {
		t.Errorf("flags %#x", got)
	}
	if got := flagsOf(t, second.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	Call(s.Client(), recallSlot(done))
	if o := <-done; o != (outcome{}) {
		t.Errorf("%+v", o)
	}
}

func TestCallsThatCannotBeMade(t *testing.T) {
	done := make(chan outcome, maxQueue+10)
	s, _ := backSession(t, &client41{}, func(a *wire.CreateSession4Args) { a.SecParms = wire.CreateSession4ArgsSecParms{} })
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("without a credential: %+v", o)
	}
	s, _ = backSession(t, &client41{}, func(a *wire.CreateSession4Args) { a.BackChanAttrs.Maxrequestsize = leastBackRequest })
	s.Call(&Callback{Number: wire.OpCBNotifyLock, Args: &wire.CBNotifyLock4Args{FH: make([]byte, 128), LockOwner: wire.StateOwner4{Owner: make([]byte, 1000)}},
		Done: func(s wire.NFSStat4, _ *xdr.Decoder, err error) { done <- outcome{s, err} }})
	if o := <-done; o.err != ErrTooLarge {
		t.Errorf("longer than the client takes: %+v", o)
	}
	k := &client41{silent: true}
	s, far := backSession(t, k, nil)
	for range 8 + maxQueue + 1 {
		s.Call(recallSlot(done))
	}
	if o := <-done; o.err != ErrTooMany {
		t.Errorf("one too many: %+v", o)
	}
	far.run(op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: far.id}))
	for range maxQueue {
		if o := <-done; o.err != ErrNoPath {
			t.Errorf("one that waited when the session ended: %+v", o)
		}
	}
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("after the session's end: %+v", o)
	}
	for x := range k.waiting {
		k.Cancel(x, rpc.ErrCallLost)
	}
}

// A call that ends before its timer is set is not cancelled later, because its exchange may belong
// to another call by then.
func TestCallThatEndsAtOnceIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller41
		answered := 0
		startUntil(&c, &rpc.Exchange{Done: func(*rpc.Exchange) { answered++ }}, time.Now().Add(time.Minute))
		time.Sleep(time.Hour)
		if answered != 1 || c.cancelled.Load() != 0 {
			t.Errorf("answered %d times, cancelled %d times", answered, c.cancelled.Load())
		}
	})
}
