package mount3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// In an export with ManageGIDs, MNT of a directory below the root checks the caller's groups on
// this machine. It waits for their look-up. If the look-up fails, MNT fails.
func TestMntByManagedGroups(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m, &export.Export{Name: "/srv"})
		op := vfs.Op{Cred: &vfs.Cred{}}
		o, _, err := s.fs.Mkdir(&op, s.fs.Root(), []byte("shared"), &vfs.SetAttr{SetMode: true, Mode: 0o070, SetGID: true, GID: 4000})
		if err == nil {
			_, _, err = s.fs.Mkdir(&op, o.Handle, []byte("below"), &vfs.SetAttr{SetMode: true, Mode: 0o755})
		}
		if err != nil {
			t.Fatal(err)
		}
		var known groups.Fake
		s.table.Groups = &known
		e, _, _ := s.table.Resolve("/srv")
		anew := &export.Export{Name: "/srv", FS: e.FS, Options: export.Options{ManageGIDs: true}}
		if err := s.table.Replace([]*export.Export{anew}); err != nil {
			t.Fatal(err)
		}
		var why []export.Reason
		s.table.OnRefusal = func(r *export.Refusal) { why = append(why, r.Reason) }
		mnt := func(uid uint32, then func()) wire.Stat3 {
			t.Helper()
			s.xid++
			h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcMnt)}
			if h.Cred, err = rpc.AuthSysCred(0, "client", uid, uid, []uint32{4000}); err != nil {
				t.Fatal(err)
			}
			c := rpctest.NewCall(s.conn, rpctest.CallMessage(h, func(w *xdr.Writer) { w.String("/srv/shared/below") }))
			c.Space = s.room
			if _, ok := s.rpc.Admit(&c.Call); !ok {
				t.Fatal("not admitted")
			}
			s.rpc.Serve(&c.Call)
			await.Until(t, "it waits", func() bool { return known.Waiting() == 1 })
			then()
			await.Receive(t, "the call is answered", c.Done)
			d, err := c.Results()
			if err != nil {
				t.Fatal(err)
			}
			return wire.Stat3(d.Uint32())
		}
		if got := mnt(1000, func() { known.Know(1000, 3000, 4000) }); got != wire.OK {
			t.Errorf("a member of the group: %v", got)
		}
		if got := mnt(1001, func() { known.Know(1001) }); got != wire.ErrAccess {
			t.Errorf("one who only says so: %v", got)
		}
		if got := mnt(1002, func() { known.Delay(1002) }); got != wire.ErrServerFault {
			t.Errorf("one who cannot be looked up: %v", got)
		}
		if len(why) != 2 || why[1] != export.NoGroups {
			t.Errorf("told of %v", why)
		}
	})
}
