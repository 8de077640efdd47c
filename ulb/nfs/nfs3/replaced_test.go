package nfs3_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// admitted passes a call to Judge. The returned function runs the call.
func (s *site) admitted(p wire.Procedure, args encoder) (run func() wire.NFSStat3) {
	s.t.Helper()
	c := rpctest.NewCall(s.conn, s.message(p, args))
	c.Space = s.room
	if _, ok := s.rpc.Admit(&c.Call); !ok {
		s.t.Fatal("not admitted")
	}
	return func() wire.NFSStat3 {
		s.rpc.Serve(&c.Call)
		await.Receive(s.t, "the call is answered", c.Done)
		d, err := c.Results()
		if err != nil {
			s.t.Fatal(err)
		}
		return wire.NFSStat3(d.Uint32())
	}
}

// If an export is replaced after Judge accepted a call and before the call runs, the new export
// decides, and the old one is not used.
func TestExportReplacedBeforeItsCallRuns(t *testing.T) {
	for name, c := range map[string]struct {
		now  func(s *site) []*export.Export
		want wire.NFSStat3
	}{
		"removed": {func(*site) []*export.Export { return nil }, wire.NFS3ErrStale},
		"as before": {func(s *site) []*export.Export {
			return []*export.Export{{Name: "/", FS: s.export.FS, Options: export.Options{Squash: export.NoSquash}}}
		}, wire.NFS3OK},
		"read-only": {func(s *site) []*export.Export {
			return []*export.Export{{Name: "/", FS: s.export.FS, Options: export.Options{Squash: export.NoSquash, ReadOnly: true}}}
		}, wire.NFS3ErrROFS},
		"for other clients": {func(s *site) []*export.Export {
			return []*export.Export{{Name: "/", FS: s.export.FS, Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
		}, wire.NFS3ErrAccess},
		"of another file system": {func(*site) []*export.Export {
			return []*export.Export{{Name: "/", FS: memfs.New(memfs.Options{RootMode: 0o777}), Options: export.Options{Squash: export.NoSquash}}}
		}, wire.NFS3ErrBadHandle}, // the status for handles of other servers
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			dir := s.mkdir(s.root, "dir")
			run := s.admitted(wire.ProcMkdir, &wire.Mkdir3Args{Where: s.at(dir, "new")})
			old := s.export
			if err := s.table.Replace(c.now(s)); err != nil {
				t.Fatal(err)
			}
			await.Receive(t, "the export is idle", old.Retire())
			want(t, "status", run(), c.want)
			var res wire.Lookup3Res
			s.call(wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "dir")}, &res)
			if (c.want == wire.NFS3OK || c.want == wire.NFS3ErrROFS) != (res.Status == wire.NFS3OK) {
				t.Errorf("a later LOOKUP is answered %v", res.Status)
			}
		})
	}
}

// A running call keeps the export that it entered.
func TestExportReplacedWhileItsCallRuns(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := newSiteOver(t, fs, fs)
	s.create(s.root, "f", 0o600)
	old := s.export
	var idle <-chan struct{}
	old.FS = &renamed{FileSystem: fs, during: func() {
		if err := s.table.Replace([]*export.Export{{Name: "/", FS: fs, Options: export.Options{Squash: export.NoSquash}}}); err != nil {
			t.Error(err)
		}
		idle = old.Retire()
		select {
		case <-idle:
			t.Error("the export is idle while a call runs")
		default:
		}
	}}
	var res wire.Rename3Res
	s.call(wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "f"), To: s.at(s.root, "g")}, &res)
	want(t, "status", res.Status, wire.NFS3OK)
	await.Receive(t, "the export is idle", idle)
}

// renamed calls a function during a Rename.
type renamed struct {
	vfs.FileSystem
	during func()
}

// Rename implements vfs.FileSystem.
func (f *renamed) Rename(op *vfs.Op, from vfs.Handle, name []byte, to vfs.Handle, newName []byte) (a, b vfs.Change, err error) {
	f.during()
	return f.FileSystem.Rename(op, from, name, to, newName)
}
