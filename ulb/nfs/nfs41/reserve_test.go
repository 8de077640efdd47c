package nfs41

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A watched is a file system that allocates nothing, and calls each with the number of the call.
type watched struct {
	*memfs.FS
	calls []uint64 // offsets
	each  func(n int)
}

func (w *watched) Allocate(_ *vfs.Op, _ vfs.File, offset, _ uint64) error {
	w.calls = append(w.calls, offset)
	w.each(len(w.calls))
	return nil
}

func (w *watched) Usage(*vfs.Op, vfs.Handle) (vfs.Usage, error) {
	return vfs.Usage{FreeBytes: 1 << 40}, nil
}

// If a session has no connection left, a long ALLOCATE ends after a piece, with NFS4ERR_DELAY. If the session still has
// another connection, it goes on to its end.
func TestLongAllocateOfASessionWithoutConnectionEnds(t *testing.T) {
	const length = 1 << 30
	for _, left := range []bool{false, true} {
		fs := &watched{FS: memfs.New(memfs.Options{RootMode: 0o777})}
		var user vfs.Cred
		file, _, err := fs.Create(&vfs.Op{Cred: &user}, fs.Root(), []byte("file"), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o666}})
		if err != nil {
			t.Fatal(err)
		}
		site := nfs4test.New(t, nfs4test.Config{FS: fs, Minors: func(sm *state.Manager) [3]nfs4.Minor {
			m := New(Config{State: sm})
			return [3]nfs4.Minor{nil, m, m}
		}})
		p, other := site.Peer(2), site.Peer(2)
		s := newClientSession(p, "client")
		if left {
			want(t, "another connection", other.Compound(op(wire.OpSequence, s.sequenceOp(1))), wire.NFS4OK, 1)
		}
		fs.each = func(n int) {
			if n == 2 {
				p.Conn.Close()
			}
		}
		ops := []nfs4test.Op{
			op(wire.OpSequence, s.sequenceOp(0)), op(wire.OpPutFH, &wire.PutFH4Args{Object: site.Exports.Seal(nil, site.Export, file.Handle)}),
			op(wire.OpAllocate, &wire.Allocate4Args{Length: length}),
		}
		p.End(p.Begin(p.Message("", ops...)))
		status, pieces := wire.NFS4ErrDelay, 2
		if left {
			status, pieces = wire.NFS4OK, length>>26
		}
		want(t, "the same again", site.Peer(2).Compound(ops...), status, 3)
		if len(fs.calls) != pieces || !slices.IsSorted(fs.calls) || len(slices.Compact(fs.calls)) != pieces {
			t.Errorf("another connection %v: pieces at %v", left, fs.calls)
		}
	}
}
