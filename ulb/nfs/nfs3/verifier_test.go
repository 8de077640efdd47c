package nfs3_test

import (
	"syscall"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// unlucky is a file system in which another client's sync fails at the worst time: directly
// after a Write, whose data is lost with it, or directly before a Commit.
type unlucky struct{ *memfs.FS }

func (f unlucky) failedSync(op *vfs.Op, h vfs.Handle) {
	block := *op
	block.Try = false
	f.FS.FailSync(syscall.EIO)
	f.FS.Commit(&block, h, 0, 0)
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

// A client keeps written data until a COMMIT returns the verifier of the WRITE (RFC 1813
// §3.3.7, §3.3.21). So the reply to a WRITE has the verifier from before the WRITE, and the
// reply to a COMMIT the verifier from after the COMMIT. The client then notices a loss in
// between.
func TestALossWhileWritingIsSeenByTheVerifier(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			fs := memfs.New(memfs.Options{RootMode: 0o777, Unsynced: true})
			s := newSiteOver(t, fs, m.of(unlucky{fs}))
			f := s.create(s.root, "f", 0o600)
			before := wire.WriteVerf3(fs.Verifier())
			w := s.write(f, 0, "data", wire.Unstable)
			want(t, "WRITE", w.Status, wire.NFS3OK)
			want(t, "the verifier of a WRITE whose data was lost while it ran", w.ResOK.Verf, before)
			if _, data := s.read(f, 0, 4); data == "data" {
				t.Fatal("the file system did not lose what was written")
			}
			between := wire.WriteVerf3(fs.Verifier())
			if between == before {
				t.Fatal("a sync failed, and the file system's verifier stayed")
			}
			var c wire.Commit3Res
			s.call(wire.ProcCommit, &wire.Commit3Args{FileHandle: f}, &c)
			want(t, "COMMIT", c.Status, wire.NFS3OK)
			want(t, "the verifier of a COMMIT", c.ResOK.Verf, wire.WriteVerf3(fs.Verifier()))
			if c.ResOK.Verf == between {
				t.Error("COMMIT has the verifier from before a loss")
			}
		})
	}
}
