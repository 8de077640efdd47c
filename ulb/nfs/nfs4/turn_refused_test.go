package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// If a request of an owner is refused before it begins, because its export has changed within
// the compound, it uses up its seqid like any other request: the client continues with the next
// seqid (RFC 7530 §9.1.7).
func TestRefusedRequestsUseTheirNumbersUp(t *testing.T) {
	fs := &slowFiles{FileSystem: memfs.New(memfs.Options{RootMode: 0o777}), before: func() {}}
	s := openSiteOver(t, fs)
	f := newFiler(t, s, 0)
	f.dir = s.Exports.Seal(nil, s.Export, fs.Root()) // in the export that is replaced later
	x := &principals{filer: f}
	x.mode("file", 0o666)
	o := x.opens("file")
	with := func(security ...export.Security) func() {
		return func() {
			fs.before = func() {}
			e := &export.Export{Name: s.Export.Name, FS: fs, Options: export.Options{Squash: export.NoSquash}, Security: security}
			if err := s.Exports.Replace([]*export.Export{e}); err != nil {
				t.Fatal(err)
			}
			s.Export.Retire()
			s.Export = e
		}
	}
	fs.before = with(export.Krb5)
	lock := func(seqid uint32) nfs4test.Op {
		first := opFirstLock(o.Stateid, "locker", wire.WriteLt, 0, 1)
		first.Args.(*wire.Lock4Args).Locker.OpenOwner.OpenSeqid = seqid
		return first
	}
	f.want(wire.NFS4ErrDelay, putFH(o.fh), opRead(o.Stateid, 0, 1), lock(3))
	with()()
	f.want(wire.NFS4ErrBadSeqID, putFH(o.fh), lock(5))
	f.want(wire.NFS4OK, putFH(o.fh), lock(4))
}
