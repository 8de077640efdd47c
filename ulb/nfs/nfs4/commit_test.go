package nfs4_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// onDirectory returns bob, who uses a directory, and the path of a file f in it that all users
// may write.
func onDirectory(t *testing.T, hook func(local.SyncCall, int) error) (bob *filer, f string) {
	root := t.TempDir()
	f = filepath.Join(root, "f")
	if err := os.WriteFile(f, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{root: 0o777, f: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir(), SyncHook: hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	bob = newFiler(t, openSiteOver(t, fs), 1)
	bob.UID, bob.GID = 1000, 1000
	return bob, f
}

func writeWith(id wire.StateID4, data string, stable wire.StableHow4) nfs4test.Op {
	args := &wire.Write4Args{Stateid: id, Stable: stable}
	args.Data.Data = []byte(data)
	return nfs4test.Op{Number: wire.OpWrite, Args: args}
}

var commitAll = nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}}

// A caller that has a file open for writing can write and commit after a chmod. Another user
// cannot.
func TestCommitOfAnOpenFileAfterChmod(t *testing.T) {
	bob, f := onDirectory(t, nil)
	o := bob.open(openArgs("f", "bob", both, 0))
	if err := os.Chmod(f, 0o600); err != nil { // root, the owner, calls chmod
		t.Fatal(err)
	}
	carol := *bob.Peer
	carol.UID = 1001
	commit := func() wire.NFSStat4 { return carol.Compound(putFH(o.fh), commitAll).Status }
	if s := commit(); s != wire.NFS4ErrAccess {
		t.Errorf("COMMIT by another user than the one that has the file open: %v", s)
	}
	for _, op := range []nfs4test.Op{writeWith(o.Stateid, "data", wire.Unstable4), commitAll} {
		if s := bob.Compound(putFH(o.fh), op).Status; s != wire.NFS4OK {
			t.Errorf("%v of an open file after chmod: %v", op.Number, s)
		}
	}
	bob.close(o)
	if s := bob.Compound(putFH(o.fh), commitAll).Status; s != wire.NFS4ErrAccess {
		t.Errorf("COMMIT of a file that was closed after chmod: %v", s)
	}
}

// If the disk is full, WRITE can say so. COMMIT has only NFS4ERR_IO for that.
func TestLackOfSpaceAtASync(t *testing.T) {
	bob, _ := onDirectory(t, func(local.SyncCall, int) error { return syscall.EDQUOT })
	o := bob.open(openArgs("f", "bob", both, 0))
	if s := bob.Compound(putFH(o.fh), writeWith(o.Stateid, "data", wire.FileSync4)).Status; s != wire.NFS4ErrDQuot {
		t.Errorf("WRITE: %v", s)
	}
	if s := bob.Compound(putFH(o.fh), writeWith(o.Stateid, "data", wire.Unstable4)).Status; s != wire.NFS4OK {
		t.Errorf("WRITE, unstable: %v", s)
	}
	if s := bob.Compound(putFH(o.fh), commitAll).Status; s != wire.NFS4ErrIO {
		t.Errorf("COMMIT: %v", s)
	}
}
