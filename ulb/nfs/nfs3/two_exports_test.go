package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// RENAME and LINK between two exports get NFS3ERR_XDEV (RFC 1813 §3.3.14, §3.3.15), even if
// both exports show one file system, because the server has checked the caller's rights only
// for the export of the first handle.
func TestRenameAndLinkStayWithinAnExport(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		other := memfs.New(memfs.Options{RootMode: 0o777})
		same := &export.Export{Name: "/same", FS: s.export.FS, Options: export.Options{Squash: export.NoSquash, ReadOnly: true}}
		another := &export.Export{Name: "/another", FS: other, Options: export.Options{Squash: export.NoSquash}}
		if err := s.table.Replace([]*export.Export{s.export, same, another}); err != nil {
			t.Fatal(err)
		}
		root := func(e *export.Export, h vfs.Handle) wire.FileHandle3 {
			return wire.FileHandle3{Data: s.table.Seal(nil, e, h)}
		}
		f := s.create(s.root, "f", 0o600)
		for name, to := range map[string]wire.FileHandle3{
			"one file system": root(same, s.fs.Root()), "two file systems": root(another, other.Root()),
		} {
			var ren wire.Rename3Res
			s.call(wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "f"), To: s.at(to, "moved")}, &ren)
			want(t, "RENAME to another export of "+name, ren.Status, wire.NFS3ErrXDev)
			var link wire.Link3Res
			s.call(wire.ProcLink, &wire.Link3Args{FileHandle: f, Link: s.at(to, "linked")}, &link)
			want(t, "LINK into another export of "+name, link.Status, wire.NFS3ErrXDev)
		}
		names, _ := s.names(s.root, false, 8192, nil)
		want(t, "names in the first export", len(names), 3) // with "." and ".."
		want(t, "links of the file", s.getattr(f).Nlink, 1)
	})
}
