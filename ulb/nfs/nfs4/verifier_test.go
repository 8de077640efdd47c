package nfs4_test

import (
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// unlucky is a file system in which another client's sync fails at the worst time: right after
// a Write, whose data is lost with it, or right before a Commit.
type unlucky struct{ *memfs.FS }

func (f unlucky) failedSync(op *vfs.Op, h vfs.Handle) {
	block := *op
	block.Try = false
	f.FS.FailSync(syscall.EIO)
	_, _ = f.FS.Commit(&block, h, 0, 0)
}

func (f unlucky) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	n, done, ch, err := f.FS.Write(op, h, off, data, s)
	f.failedSync(op, h)
	return n, done, ch, err
}

func (f unlucky) Commit(op *vfs.Op, h vfs.Handle, off uint64, count uint32) (vfs.Change, error) {
	f.failedSync(op, h)
	return f.FS.Commit(op, h, off, count)
}

// A client keeps written data until a COMMIT returns the verifier of the WRITE (RFC 8881
// §18.3.3, §18.32.3). So the result of a WRITE has the verifier from before the WRITE, and the
// result of a COMMIT the verifier from after the COMMIT. The client then notices a loss in
// between.
func TestALossWhileWritingIsSeenByTheVerifier(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777, Unsynced: true})
	f := newFiler(t, openSiteOver(t, unlucky{fs}), 1)
	o := f.create("file", "me", both, 0)
	f.close(o)
	before := wire.Verifier4(fs.Verifier())
	args := &wire.Write4Args{Stateid: state.Anonymous, Stable: wire.Unstable4}
	args.Data.Data = []byte("data")
	r := f.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpWrite, Args: args})
	var w wire.Write4Res
	r.Ops[1].Into(t, &w)
	if w.ResOK.Writeverf != before {
		t.Errorf("the verifier of a WRITE whose data was lost while it ran is %x, want %x", w.ResOK.Writeverf, before)
	}
	between := wire.Verifier4(fs.Verifier())
	if between == before {
		t.Fatal("a sync failed, and the file system's verifier stayed")
	}
	r = f.want(wire.NFS4OK, putFH(o.fh), nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}})
	var c wire.Commit4Res
	r.Ops[1].Into(t, &c)
	if after := wire.Verifier4(fs.Verifier()); c.ResOK.Writeverf != after || after == between {
		t.Errorf("the verifier of a COMMIT is %x, want %x, not %x", c.ResOK.Writeverf, after, between)
	}
}
