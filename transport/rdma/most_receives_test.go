package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The calls and the callbacks of the tests below. Neither hides the other: spareReceives are fewer than both, and
// without either of them a connection would have room for fewer messages than the client is ready for.
const (
	mostCalls     = 12
	mostCallbacks = 10
)

// overEach runs a test on the device of the other tests. If it passes, overEach runs it on an RDMA device, too.
func overEach(t *testing.T, test func(*testing.T)) {
	if !t.Run("default", test) {
		return
	}
	defer func(before func(testing.TB) rdmacm.Provider) { elsewhere = before }(elsewhere)
	elsewhere = newVerbs
	t.Run("verbs", test)
}

// wantRoom ends the test unless the device below the other end of p's connection has room for n messages. Only the
// device in memory tells that. Other devices, as that one, panic if their user is ready for more than they have room for.
func wantRoom(t *testing.T, p peer, n int) {
	t.Helper()
	if elsewhere != nil {
		return
	}
	if got := end(p).MaxReceives(); got < n {
		t.Fatalf("the device has room for %d messages (ConnParam.MaxReceives), and its user will be ready for %d", got, n)
	}
}

// A client that has all its calls in flight is ready for their replies, and for all callbacks that it serves at a time
// (V1-17; RFC 8167 §4.1). A device makes room for so many messages when the connection is set up
// (rdmacm.ConnParam.MaxReceives).
func TestReceivesForCallsAndCallbacks(t *testing.T) { overEach(t, receivesForCallsAndCallbacks) }

func receivesForCallsAndCallbacks(t *testing.T) {
	back, program := callbacks(t)
	s := newScript(t, DialConfig{Credits: mostCalls, Callbacks: back, callbackCredits: mostCallbacks}, nil)
	wantRoom(t, s.p, spareReceives+mostCallbacks+mostCalls)
	s.ramp(mostCalls)
	wantPromised(t, s.p, spareReceives+mostCallbacks)
	xids, done := s.outstanding(mostCalls+1, mostCalls)
	wantPromised(t, s.p, spareReceives+mostCallbacks+mostCalls)
	for xid := range uint32(mostCallbacks) {
		if err := s.p.Send(message{xid: xid, payload: rpctest.Message(xid, rpctest.NULL, nil)}.bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for range mostCallbacks {
		h, payload := answered(t, s.p.Receive())
		results(t, h.XID, payload)
	}
	wantPromised(t, s.p, spareReceives+mostCallbacks+mostCalls)
	s.reply(message{xid: xids[0], credits: mostCalls, payload: success(xids[0])})
	h, _ := s.next()
	for _, xid := range append(xids[1:], h.XID) {
		s.reply(message{xid: xid, credits: mostCalls, payload: success(xid)})
	}
	for _, d := range done {
		ended(t, d)
	}
	wantPromised(t, s.p, spareReceives+mostCallbacks)
	if n := program.Served[rpctest.NULL].Load(); n != mostCallbacks {
		t.Errorf("%d callbacks were served", n)
	}
}

// The same in version 2, in which the client is ready for window2 more messages (V2-9).
func TestReceivesForCallsAndCallbacksOfVersion2(t *testing.T) {
	overEach(t, receivesForCallsAndCallbacksOfVersion2)
}

func receivesForCallsAndCallbacksOfVersion2(t *testing.T) {
	const limit = 1000
	back, program := callbacks(t)
	s, _ := newScript2(t, DialConfig{Credits: mostCalls, Callbacks: back, callbackCredits: mostCallbacks}, accepts2(limit))
	wantRoom(t, s.p, spareReceives+window2+mostCallbacks+mostCalls)
	wantPromised(t, s.p, spareReceives+window2+mostCallbacks)
	var xids []uint32
	var done []<-chan result
	for range mostCalls + 1 {
		done = append(done, s.start(null()))
	}
	for range mostCalls {
		q, _ := s.next2()
		xids = append(xids, q.XID)
	}
	wantPromised(t, s.p, spareReceives+window2+mostCallbacks+mostCalls)
	for xid := range uint32(mostCallbacks) {
		s.sendRaw(permits(call2(xid, rpctest.NULL), limit))
	}
	for range mostCallbacks {
		q, m := s.next2()
		if q.Type != wire.TypeReplyInline {
			t.Fatalf("the client answers % x", m)
		}
		results(t, q.XID, m[wire.MinReplyInline:])
	}
	wantPromised(t, s.p, spareReceives+window2+mostCallbacks+mostCalls)
	s.reply2(xids[0], limit)
	q, _ := s.next2()
	for _, xid := range append(xids[1:], q.XID) {
		s.reply2(xid, limit)
	}
	for _, d := range done {
		ended(t, d)
	}
	wantPromised(t, s.p, spareReceives+window2+mostCallbacks)
	if n := program.Served[rpctest.NULL].Load(); n != mostCallbacks {
		t.Errorf("%d callbacks were served", n)
	}
}
