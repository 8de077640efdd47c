package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// remembered implements state.Records. It holds the records of two clients, called 0 and 1.
type remembered struct{}

func (remembered) Begin() (uint32, []state.Record, error) {
	return 1, []state.Record{{Kind: 1, Owner: "0"}, {Kind: 1, Owner: "1"}}, nil
}
func (remembered) Put([]state.Record) error    { return nil }
func (remembered) Remove([]state.Record) error { return nil }

// During grace, only clients that held state may reclaim it, and nothing else is granted.
// After grace, nothing can be reclaimed.
func TestGrace(t *testing.T) {
	var minor *known
	s := nfs4test.New(t, nfs4test.Config{State: state.Config{Records: remembered{}}, Minors: func(m *state.Manager) [3]nfs4.Minor {
		minor = newKnown(m, 1)
		minor.reclaims = true
		return [3]nfs4.Minor{nil, minor, nil}
	}})
	f, other := newFiler(t, s, 1), newFiler(t, s, 1)
	clients := []*state.Client{minor.of(f.Conn), minor.of(other.Conn)}
	f.refused(wire.NFS4ErrGrace, creating(openArgs("file", "me", both, 0), wire.Unchecked4, fileMode(0o600)))
	made, _, err := s.FS.Create(&vfs.Op{Cred: &vfs.Cred{}}, s.FS.Root(), []byte("file"), &vfs.CreateHow{})
	if err != nil {
		t.Fatal(err)
	}
	fh := s.Exports.Seal(nil, s.Exports.Root(), made.Handle)
	previous := func(f *filer, access, deny uint32, want wire.NFSStat4) (res wire.Open4Res) {
		t.Helper()
		a := openArgs("", "me", access, deny)
		a.Claim = wire.OpenClaim4{Claim: wire.ClaimPrevious}
		f.want(want, putFH(fh), opOpen(a)).Ops[1].Into(t, &res)
		return res
	}
	claims := func(o nfs4test.Op) nfs4test.Op {
		o.Args.(*wire.Lock4Args).Reclaim = true
		return o
	}
	f.want(wire.NFS4ErrGrace, putFH(fh), opRead(state.Anonymous, 0, 1))
	f.want(wire.NFS4ErrGrace, putFH(fh), opWrite(state.Anonymous, 0, "x"))
	f.want(wire.NFS4ErrGrace, putFH(fh), opLockTest("locker", wire.ReadLt, 0, 1))
	mine := previous(f, both, wire.Open4ShareDenyWrite, wire.NFS4OK).ResOK.Stateid
	previous(other, writable, 0, wire.NFS4ErrReclaimConflict)
	theirs := previous(other, readable, 0, wire.NFS4OK).ResOK.Stateid
	f.want(wire.NFS4OK, putFH(fh), opRead(mine, 0, 1))
	f.want(wire.NFS4ErrGrace, putFH(fh), opFirstLock(mine, "locker", wire.WriteLt, 0, 1))
	f.want(wire.NFS4OK, putFH(fh), claims(opFirstLock(mine, "locker", wire.WriteLt, 0, 1)))
	other.want(wire.NFS4ErrReclaimConflict, putFH(fh), claims(opFirstLock(theirs, "locker", wire.ReadLt, 0, 1)))
	for _, c := range clients {
		if s := s.State.ReclaimComplete(c, nil); s != state.Granted {
			t.Fatal(s)
		}
	}
	await.Until(t, "grace is over", func() bool { return !s.State.InGrace() })
	previous(f, readable, 0, wire.NFS4ErrNoGrace)
	f.want(wire.NFS4ErrNoGrace, putFH(fh), claims(opFirstLock(mine, "locker", wire.WriteLt, 0, 1)))
	f.close(f.open(openArgs("file", "somebody else", readable, 0)))
}
