package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// For a peer that has not sent one of this server's handles yet, the server reserves and
// fetches little. For a peer that has, it reserves as much as needed.
func TestStrangersReserveLittle(t *testing.T) {
	p := plainSite(t)
	read := nfs4test.Op{Number: wire.OpRead, Args: &wire.Read4Args{Count: 1 << 20}}
	write := nfs4test.Op{Number: wire.OpWrite, Args: &wire.Write4Args{Data: xdr.Eligible{Data: make([]byte, 40<<10)}}}
	plan := func(ops ...nfs4test.Op) rpc.Plan {
		t.Helper()
		c := rpctest.NewCall(p.Conn, p.Message("", ops...))
		plan, ok := p.RPC.Admit(&c.Call)
		if !ok {
			t.Fatal("not admitted")
		}
		c.Way.Drop()
		return plan
	}
	root := op(wire.OpPutRootFH)
	if got := plan(root, read); got.Early || got.Results > 64<<10 {
		t.Errorf("a READ by name: %+v", got)
	}
	if got := plan(root, write); got.Early {
		t.Errorf("a small WRITE by name: %+v", got)
	}
	if got := plan(root, write, write); !got.Early || got.Results != 0 {
		t.Errorf("a large WRITE by name: %+v", got)
	}
	if got := plan(putFH([]byte("a handle of somebody else")), read); !got.Early || got.Results != 0 {
		t.Errorf("a READ of a handle that is not ours: %+v", got)
	}
	genuine := p.Exports.Seal(nil, p.Export, p.FS.Root())
	if got := plan(putFH(genuine), read); got.Early || got.Results != 1<<20 {
		t.Errorf("a READ by handle: %+v", got)
	}
	if got := plan(root, read); got.Results != 1<<20 {
		t.Errorf("a READ by name of a peer that is known: %+v", got)
	}
}

// If the export does not accept the caller's flavor, or the caller lacks a required account,
// the server reserves and fetches nothing, and the connection does not become known.
func TestRefusedCallersReserveNothing(t *testing.T) {
	s := knownStrictSite(t)
	put := handleIn(t, s, "/strict", "file")
	read := nfs4test.Op{Number: wire.OpRead, Args: &wire.Read4Args{Count: 1 << 20}}
	write := nfs4test.Op{Number: wire.OpWrite, Args: &wire.Write4Args{Data: xdr.Eligible{Data: make([]byte, 900<<10)}}}
	for _, o := range []nfs4test.Op{read, write} {
		p := s.Peer(0)
		c := rpctest.NewCall(p.Conn, p.Message("", put, o))
		plan, ok := p.RPC.Admit(&c.Call)
		if !ok || !plan.Early || plan.Results != 0 || p.Conn.Known() {
			t.Errorf("%v under AUTH_SYS: admitted %v, %+v, known %v", o.Number, ok, plan, p.Conn.Known())
		}
		c.Way.Drop()
		if r := p.Compound(put, o); r.Status != wire.NFS4ErrWrongSec {
			t.Errorf("%v under AUTH_SYS: %v", o.Number, r.Status)
		}
	}
	secure(t, s, func(e *export.Export) { e.Security, e.RequireAccount = nil, true })
	p := s.Peer(0)
	p.Principal = "unknown@TEST"
	c := rpctest.NewCall(p.Conn, p.Message("", put, read))
	if plan, ok := p.RPC.Admit(&c.Call); !ok || !plan.Early || plan.Results != 0 || p.Conn.Known() {
		t.Errorf("READ without an account: admitted %v, %+v, known %v", ok, plan, p.Conn.Known())
	}
	c.Way.Drop()
	if r := p.Compound(put, read); r.Status != wire.NFS4ErrAccess {
		t.Errorf("READ without an account: %v", r.Status)
	}
}
