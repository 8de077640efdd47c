package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Results that take long to protect are protected on the executor, not on the goroutine that
// received the call.
func TestLargeResultsAreWrappedOnTheExecutor(t *testing.T) {
	for _, c := range []struct {
		bytes    uint32
		detached bool
	}{{1000, false}, {64 << 10, false}, {64<<10 + 1, true}, {200_000, true}} {
		s, _, conn := newServer(t, rpc.Config{})
		s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
		h := rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 1, Procedure: rpctest.GET}
		args := u32(c.bytes)
		key := newKey(t, s, conn)
		h.Cred = rpctest.SealCred(h, rpctest.SealWrap, key)
		call := rpctest.NewCall(conn, rpctest.CallMessage(h, rpctest.SealArgs(args, key))).Run(s)
		if call.End != rpctest.Sent || call.Detached != c.detached {
			t.Errorf("GET of %d bytes: end %v, detached %v", c.bytes, call.End, call.Detached)
		}
	}
}

// newKey makes a context of FlavorSeal, and returns its key.
func newKey(t *testing.T, s *rpc.Server, conn *rpc.Conn) uint32 {
	t.Helper()
	h := rpc.CallHeader{XID: 2, Program: rpctest.Number, Version: 1, Procedure: rpctest.ECHO}
	h.Cred = rpctest.SealCred(h, rpctest.SealNew, 0)
	d, err := rpctest.NewCall(conn, rpctest.CallMessage(h, func(*xdr.Writer) {})).Run(s).Results()
	if err != nil {
		t.Fatal(err)
	}
	return d.Uint32()
}

// If results fit into the caller's space without protection, but not with it, they are not sent.
func TestResultsThatDoNotFitWhenProtected(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
	key := newKey(t, s, conn)
	xid := uint32(2)
	get := func(room int) *rpctest.Call {
		xid++ // each call has an XID of its own
		h := rpc.CallHeader{XID: xid, Program: rpctest.Number, Version: 1, Procedure: rpctest.ECHO}
		h.Cred = rpctest.SealCred(h, rpctest.SealWrap, key)
		c := rpctest.NewCall(conn, rpctest.CallMessage(h, rpctest.SealArgs(func(w *xdr.Writer) { w.Opaque(make([]byte, 100)) }, key)))
		c.Space = rpc.Room{Inline: room}
		return c.Run(s)
	}
	whole := len(get(4096).Reply)
	for room := whole; room > whole-16; room-- {
		if _, err := get(room).Results(); (err == nil) != (room == whole) {
			t.Errorf("room for %d of %d bytes: %v", room, whole, err)
		}
	}
}

// Results that are wrapped are part of the reply, even if the caller offers a Write chunk for them. A
// procedure that must run at most once is not run if they do not fit there.
func TestWrappedResultsAreNotPlaced(t *testing.T) {
	for service, served := range map[uint32]uint64{rpctest.SealNone: 1, rpctest.SealWrap: 0} {
		s, p, conn := newServer(t, rpc.Config{})
		s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
		key := newKey(t, s, conn)
		h := rpc.CallHeader{XID: 3, Program: rpctest.Number, Version: 1, Procedure: rpctest.FETCH}
		h.Cred = rpctest.SealCred(h, service, key)
		args := u32(4096)
		if service == rpctest.SealWrap {
			args = rpctest.SealArgs(args, key)
		}
		c := rpctest.NewCall(conn, rpctest.CallMessage(h, args))
		c.Space, c.Places = rpc.Room{Inline: 1024}, []int{4096}
		c.Run(s)
		if n := p.Served[rpctest.FETCH].Load(); uint64(n) != served {
			t.Errorf("service %d: executed %d times, want %d", service, n, served)
		}
	}
}
