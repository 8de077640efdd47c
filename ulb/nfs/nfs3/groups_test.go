package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// If the groups of a user are unknown, a call of the user waits for their look-up. It is then
// served with these groups, whatever groups the client claims. If the look-up fails, the client
// gets NFS3ERR_JUKEBOX.
func TestManagedGroups(t *testing.T) {
	s := newSite(t)
	var known groups.Fake
	s.table.Groups = &known
	dir, err := s.fs.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, s.fs.Root(), []byte("."), new(vfs.Attr))
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := s.fs.Create(&vfs.Op{Cred: &vfs.Cred{}}, dir.Handle, []byte("file"),
		&vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o060, SetGID: true, GID: 4000}})
	if err != nil {
		t.Fatal(err)
	}
	anew := &export.Export{Name: s.export.Name, FS: s.export.FS, Options: export.Options{Squash: export.NoSquash, ManageGIDs: true}}
	if err := s.table.Replace([]*export.Export{anew}); err != nil {
		t.Fatal(err)
	}
	handle := wire.FileHandle3{Data: s.table.Seal(nil, anew, file.Handle)}
	message := func(uid uint32, p wire.Procedure, args encoder) []byte {
		s.xid++
		h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(p)}
		if h.Cred, err = rpc.AuthSysCred(0, "client", uid, uid, []uint32{4000}); err != nil {
			t.Fatal(err)
		}
		return rpctest.CallMessage(h, args.Encode)
	}
	status := func(c *rpctest.Call) wire.NFSStat3 {
		t.Helper()
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		return wire.NFSStat3(d.Uint32())
	}
	begin := func(uid uint32) *rpctest.Call {
		c := rpctest.NewCall(s.conn, message(uid, wire.ProcRead, &wire.Read3Args{FileHandle: handle, Count: 1}))
		c.Space, c.Places = s.room, s.places
		plan, ok := s.rpc.Admit(&c.Call)
		if !ok {
			t.Fatal("not admitted")
		}
		if c.Memory, ok = s.share.TryGetIn(plan.Group, max(plan.Results, 1)); !ok {
			t.Fatal("no memory")
		}
		c.ResultsAt = 0
		s.rpc.Serve(&c.Call)
		return c
	}
	end := func(c *rpctest.Call) wire.NFSStat3 {
		t.Helper()
		await.Receive(t, "the call is answered", c.Done)
		c.Memory.Release()
		return status(c)
	}

	member, other, late := begin(1000), begin(1001), begin(1002)
	await.Until(t, "three calls wait", func() bool { return known.Waiting() == 3 })
	known.Know(1000, 3000, 4000)
	await.Until(t, "the others wait again", func() bool { return known.Waiting() == 2 })
	want(t, "a member of the group", end(member), wire.NFS3OK)
	known.Know(1001, 3000)
	await.Until(t, "the last waits again", func() bool { return known.Waiting() == 1 })
	want(t, "one who only says to be a member", end(other), wire.NFS3ErrAccess)
	known.Delay(1002)
	want(t, "one who cannot be looked up", end(late), wire.NFS3ErrJukebox)

	// After a failed look-up, the server reserves and fetches nothing for calls of this user.
	c := rpctest.NewCall(s.conn, message(1002, wire.ProcRead, &wire.Read3Args{FileHandle: handle, Count: 1}))
	c.Space = s.room
	if plan, ok := s.rpc.Admit(&c.Call); !ok || !plan.Early {
		t.Errorf("%v, %+v", ok, plan)
	}
	s.rpc.Serve(&c.Call)
	await.Receive(t, "the call is answered", c.Done)
	want(t, "the next", status(c), wire.NFS3ErrJukebox)

	// A CREATE that waits is executed once. A repeated CREATE gets the stored reply.
	create := message(1003, wire.ProcCreate, &wire.Create3Args{Where: s.at(wire.FileHandle3{Data: s.table.Seal(nil, anew, s.fs.Root())}, "new"),
		How: wire.CreateHow3{Mode: wire.Guarded}})
	first := rpctest.NewCall(s.conn, create)
	first.Space = s.room
	if _, ok := s.rpc.Admit(&first.Call); !ok {
		t.Fatal("not admitted")
	}
	s.rpc.Serve(&first.Call)
	await.Until(t, "it waits", func() bool { return known.Waiting() == 1 })
	known.Know(1003)
	await.Receive(t, "the creation is answered", first.Done)
	want(t, "the creation", status(first), wire.NFS3OK)
	want(t, "its repetition", status(s.run(create)), wire.NFS3OK)
}
