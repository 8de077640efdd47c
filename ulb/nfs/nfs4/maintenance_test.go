package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maintained is a minor version in which the client's machine may COMMIT for its users.
type maintained struct{ plain }

func (maintained) Before(k *nfs4.Compound, _ *nfs4.Operation) wire.NFSStat4 {
	k.Session = maintainer{}
	return wire.NFS4OK
}

type maintainer struct{}

func (maintainer) MachineMay(_ *rpc.Cred, op wire.OpNum) bool { return op == wire.OpCommit }

// longBitmap is a bitmap with more words than willMaintain skips.
type longBitmap struct{}

func (longBitmap) Encode(w *xdr.Writer) {
	const words = 17
	w.Uint32(words)
	for range words {
		w.Uint32(0)
	}
}

// The client's machine may do maintenance under a flavor that the export does not accept. The
// compound may also contain GETATTR, and nothing else.
func TestMaintenanceUnderAnotherFlavor(t *testing.T) {
	s := strictSiteWith(t, func(c *nfs4test.Config) {
		c.Minors = func(*state.Manager) [3]nfs4.Minor { return [3]nfs4.Minor{1: maintained{}} }
	})
	p := s.Peer(1)
	e, _, _ := s.Exports.Resolve("/strict")
	put := putFH(s.Exports.Seal(nil, e, e.FS.Root()))
	commit := nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}}
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
		want wire.NFSStat4
		// at is the index of the operation that gets the status.
		at int
	}{
		// NFS4ERR_ISDIR shows that the operation was admitted: a directory cannot be
		// committed.
		{"COMMIT", []nfs4test.Op{put, commit}, wire.NFS4ErrIsDir, 1},
		{"GETATTR, COMMIT", []nfs4test.Op{put, getattr(1), commit}, wire.NFS4ErrIsDir, 2},
		{"GETATTR", []nfs4test.Op{put, getattr(1)}, wire.NFS4ErrWrongSec, 0},
		{"READDIR, COMMIT", []nfs4test.Op{put, readdir(0, 4096), commit}, wire.NFS4ErrWrongSec, 0},
		{"GETATTR, READDIR, COMMIT", []nfs4test.Op{put, getattr(1), readdir(0, 4096), commit}, wire.NFS4ErrWrongSec, 0},
		{"GETATTR, LOOKUP, COMMIT", []nfs4test.Op{put, getattr(1), lookup("file"), commit}, wire.NFS4ErrWrongSec, 0},
		{"a long bitmap", []nfs4test.Op{put, {Number: wire.OpGetattr, Args: longBitmap{}}, commit}, wire.NFS4ErrWrongSec, 0},
	} {
		r := p.Compound(c.ops...)
		if r.Status != c.want || len(r.Ops) != c.at+1 {
			t.Errorf("%s: %v after %d operations, want %v after %d", c.name, r.Status, len(r.Ops), c.want, c.at+1)
		}
	}
	file, err := e.FS.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, e.FS.Root(), []byte("file"), new(vfs.Attr))
	if err != nil {
		t.Fatal(err)
	}
	putFile := putFH(s.Exports.Seal(nil, e, file.Handle))
	if r := p.Compound(putFile, commit, getattr(1)); r.Status != wire.NFS4OK {
		t.Errorf("COMMIT, GETATTR: %v", statuses(r))
	}
	if r := p.Compound(putFile, commit, op(wire.OpGetFH)); r.Status != wire.NFS4ErrStale {
		t.Errorf("COMMIT, GETFH: %v", statuses(r))
	}
	if r := p.Compound(putFile, commit, put, getattr(1)); r.Status != wire.NFS4ErrWrongSec {
		t.Errorf("COMMIT, another handle, GETATTR: %v", statuses(r))
	}
}
