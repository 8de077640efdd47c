package nfs40_test

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// onHandle returns operations on the current file handle, each with valid arguments. The operations
// on opens and locks are in numbered.
func onHandle() map[string]op {
	owner := wire.StateOwner4{Clientid: 1, Owner: []byte("owner")}
	return map[string]op{
		"ACCESS": access(1), "COMMIT": commit(0, 0), "CREATE": create("new", wire.NF4Dir, mode(0o755)),
		"GETATTR": getattr(wire.Fattr4Type), "GETFH": getFH, "LINK": link("new"), "LOOKUP": lookup("file"),
		"LOOKUPP": lookupp, "NVERIFY": nverify(size(1)), "READ": read(anonymous, 0, 1), "READDIR": readdir(0, wire.Verifier4{}, 4096),
		"READLINK": readlink, "REMOVE": remove("file"), "RENAME": rename("file", "new"), "SAVEFH": saveFH,
		"SECINFO": secinfo("file"), "SETATTR": setattr(anonymous, mode(0o755)), "VERIFY": verify(size(1)), "WRITE": write(anonymous, 0, "x"),
		"CLOSE":          {Number: wire.OpClose, Args: &wire.Close4Args{Seqid: 1}},
		"OPEN_CONFIRM":   {Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{Seqid: 1}},
		"OPEN_DOWNGRADE": {Number: wire.OpOpenDowngrade, Args: &wire.OpenDowngrade4Args{Seqid: 1, ShareAccess: 1}},
		"OPEN": {Number: wire.OpOpen, Args: &wire.Open4Args{
			Seqid: 1, ShareAccess: 1, Owner: owner, Claim: wire.OpenClaim4{File: wire.UTF8String("file")},
		}},
		"LOCK": {Number: wire.OpLock, Args: &wire.Lock4Args{
			Locktype: wire.ReadLt, Length: 1, Locker: wire.Locker4{LockOwner: wire.ExistLockOwner4{Seqid: 1}},
		}},
		"LOCKT": {Number: wire.OpLockt, Args: &wire.Lockt4Args{Locktype: wire.ReadLt, Length: 1, Owner: owner}},
		"LOCKU": {Number: wire.OpLocku, Args: &wire.Locku4Args{Locktype: wire.ReadLt, Seqid: 1, Length: 1}},
	}
}

func TestOperationsWithoutHandle(t *testing.T) {
	for name, o := range onHandle() {
		t.Run(name, func(t *testing.T) { newPeer(t).run(t, wire.NFS4ErrNoFileHandle, o) })
	}
}

func TestOperationsWithoutSavedHandle(t *testing.T) {
	table(t, []row{
		{name: "LINK", ops: []op{putRootFH, link("new")}, want: wire.NFS4ErrNoFileHandle},
		{name: "RENAME", ops: []op{putRootFH, rename("file", "new")}, want: wire.NFS4ErrNoFileHandle},
		{name: "RESTOREFH", ops: []op{putRootFH, restoreFH}, want: wire.NFS4ErrRestoreFH},
		{name: "RESTOREFH without any", ops: []op{restoreFH}, want: wire.NFS4ErrRestoreFH},
	})
}

// If the arguments of an operation end too early, the operation fails with NFS4ERR_BADXDR and does
// nothing (RFC 7530 §13.1.1.1).
func TestArgumentsThatAreCutOff(t *testing.T) {
	for name, o := range onHandle() {
		if o.Args == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			m := p.Message("", putRootFH, saveFH, o)
			r := p.Parse(p.End(p.Begin(m[:len(m)-4])))
			if r.Status != wire.NFS4ErrBadXDR || len(r.Ops) != 3 || r.Ops[2].Number != o.Number {
				t.Errorf("%v %+v", r.Status, r.Ops)
			}
			p.run(t, ok, at("file")...)
		})
	}
}

func TestIllegalOperations(t *testing.T) {
	for _, n := range []wire.OpNum{0, 1, 2, wire.OpReleaseLockOwner + 1, wire.OpSequence, wire.OpClone, 9999, wire.OpIllegal, -1} {
		p := newPeer(t)
		r := p.run(t, wire.NFS4ErrOpIllegal, putRootFH, op{Number: n})
		if r.Ops[1].Number != wire.OpIllegal {
			t.Errorf("%d: the result is of %v", n, r.Ops[1].Number)
		}
	}
}

// The server answers NFS4ERR_NOTSUPP to the OPTIONAL operations OPENATTR and DELEGPURGE.
func TestOperationsThatAreNotServed(t *testing.T) {
	byKind(t, nil, wire.NFS4ErrNotSupp, openattr(false))
	byKind(t, nil, wire.NFS4ErrNotSupp, openattr(true))
	c := newClient(t)
	c.run(t, wire.NFS4ErrNotSupp, op{Number: wire.OpDelegpurge, Args: &wire.DelegPurge4Args{Clientid: c.id}})
}

func TestPutFH(t *testing.T) {
	p := newPeer(t)
	for _, kind := range kinds {
		h := p.handle(t, kind)
		var res wire.GetFH4Res
		last(t, p.run(t, ok, putFH(h), getFH), &res)
		if !bytes.Equal(res.ResOK.Object, h) {
			t.Errorf("%s: GETFH says %x, PUTFH %x", kind, res.ResOK.Object, h)
		}
	}
	p.run(t, wire.NFS4ErrBadHandle, putFH([]byte("none of ours")))
	p.run(t, wire.NFS4ErrBadHandle, putFH(nil))
}

// The handle of a removed object is stale at the latest when an operation uses it. If no operation
// follows PUTFH, PUTFH reports it (RFC 7530 §13.1.2.7). A removed file that is open still exists.
func TestStaleHandle(t *testing.T) {
	c := newClient(t)
	empty, file := c.handle(t, "empty"), c.handle(t, "file")
	id := c.owner("o").opens(t, "file", readMode, denyNone)
	c.run(t, ok, putRootFH, remove("empty"), remove("file"))
	for _, ops := range [][]op{{putFH(empty)}, {putFH(empty), getFH}} {
		if r := c.Compound(ops...); r.Status != wire.NFS4ErrStale || len(r.Ops) != 1 {
			t.Errorf("%d operations: %v, of %d", len(ops), r.Status, len(r.Ops))
		}
	}
	c.run(t, wire.NFS4ErrStale, putFH(empty), getattr(wire.Fattr4Type))
	c.run(t, ok, putFH(file))
	c.run(t, ok, putFH(file), getFH)
	c.run(t, ok, putFH(file), read(id, 0, 1))
}

// The public file handle is the root (RFC 7530 §4.1.2 leaves it to the server).
func TestPublicHandle(t *testing.T) {
	p := newPeer(t)
	var root, public wire.GetFH4Res
	last(t, p.run(t, ok, putRootFH, getFH), &root)
	last(t, p.run(t, ok, putPubFH, getFH), &public)
	if !bytes.Equal(root.ResOK.Object, public.ResOK.Object) {
		t.Error("PUTPUBFH and PUTROOTFH differ")
	}
}

// SAVEFH and RESTOREFH work with the handles of objects of each kind.
func TestSaveAndRestore(t *testing.T) {
	p := newPeer(t)
	for _, kind := range kinds {
		var res wire.GetFH4Res
		last(t, p.run(t, ok, join(at(kind), saveFH, putRootFH, restoreFH, getFH)...), &res)
		if !bytes.Equal(res.ResOK.Object, p.handle(t, kind)) {
			t.Errorf("%s did not come back", kind)
		}
	}
}

// After an operation has failed, the server executes no further operation of the compound.
func TestNothingFollowsAFailure(t *testing.T) {
	p := newPeer(t)
	if r := p.Compound(putRootFH, lookup("missing"), remove("file")); r.Status != wire.NFS4ErrNoEnt || len(r.Ops) != 2 {
		t.Errorf("%v after %d", r.Status, len(r.Ops))
	}
	p.run(t, ok, at("file")...)
}

func TestTags(t *testing.T) {
	p := newPeer(t)
	for tag, want := range map[string]status{"": ok, "a tag": ok, "\xc3": wire.NFS4ErrInvalid} {
		if r := p.Parse(p.End(p.Begin(p.Message(tag, putRootFH)))); r.Status != want || r.Tag != tag {
			t.Errorf("%q: %v %q", tag, r.Status, r.Tag)
		}
	}
}

// Arguments with an undefined value of an enumeration or a boolean are NFS4ERR_BADXDR.
func TestValuesThatAreNone(t *testing.T) {
	for name, put := range map[string]func(w *xdr.Writer){
		"a boolean of LOCK": func(w *xdr.Writer) {
			w.Uint32(uint32(wire.OpLock))
			w.Uint32(1)
			w.Uint32(2)
			w.Uint64(0)
			w.Uint64(1)
			w.Uint32(0)
		},
		"a file handle that is too long": func(w *xdr.Writer) { w.Uint32(uint32(wire.OpPutFH)); w.Opaque(make([]byte, wire.NFS4FHSize+1)) },
		"a client's name that is too long": func(w *xdr.Writer) {
			w.Uint32(uint32(wire.OpSetClientID))
			w.Uint64(1)
			w.Opaque(make([]byte, wire.NFS4OpaqueLimit+1))
			for range 4 {
				w.Uint32(0)
			}
		},
		"a way of storing a WRITE": func(w *xdr.Writer) {
			w.Uint32(uint32(wire.OpWrite))
			anonymous.Encode(w)
			w.Uint64(0)
			w.Uint32(7)
			w.Opaque([]byte("x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			r := p.Parse(p.End(p.Begin(p.Raw(func(w *xdr.Writer) {
				w.String("")
				w.Uint32(0)
				w.Uint32(3)
				w.Uint32(uint32(wire.OpPutRootFH))
				w.Uint32(uint32(wire.OpLookup))
				w.String("file")
				put(w)
			}))))
			if r.Status != wire.NFS4ErrBadXDR || len(r.Ops) != 3 {
				t.Errorf("%v after %d", r.Status, len(r.Ops))
			}
		})
	}
}

// The server does not fetch the data of a long WRITE if the peer has never sent a file handle. The
// WRITE then fails with NFS4ERR_RESOURCE, not with an error about its arguments.
func TestLongWriteOfAStranger(t *testing.T) {
	p := newPeer(t)
	m := p.Message("", join(at("file"), write(anonymous, 0, content))...)
	c := rpctest.NewCall(p.Conn, m[:len(m)-8])
	c.Space, c.MessageLen = p.Room, 100<<10
	if plan, admitted := p.RPC.Admit(&c.Call); !admitted || !plan.Early {
		t.Fatalf("admitted %v, as %+v", admitted, plan)
	}
	p.RPC.Serve(&c.Call)
	r := p.Parse(p.End(c))
	if r.Status != wire.NFS4ErrResource || len(r.Ops) != 3 || r.Ops[2].Number != wire.OpWrite {
		t.Errorf("%v %+v", r.Status, r.Ops)
	}
}
