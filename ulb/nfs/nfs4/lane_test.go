package nfs4_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// watched is a file system that fails the test if a method is called outside the file system's
// own lane.
type watched struct {
	vfs.FileSystem
	t      *testing.T
	server *atomic.Pointer[rpc.Server]
	calls  *atomic.Int32
}

func (w *watched) Lane() any { return w }

func (w *watched) look(op *vfs.Op) {
	if op.Try {
		return
	}
	w.calls.Add(1)
	if !slices.ContainsFunc(w.server.Load().Lanes(), func(l rpc.LaneStats) bool { return l.Running > 0 && l.Lane == any(w) }) {
		w.t.Error("it is called in the lane of another file system")
	}
}

func (w *watched) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Object, error) {
	w.look(op)
	o, err := w.FileSystem.Lookup(op, dir, name, a)
	o.HasAttr = false
	return o, err
}

func (w *watched) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	w.look(op)
	return w.FileSystem.GetAttr(op, h, a)
}

// A compound that waits for several file systems waits for each of them in that file system's
// lane. So a file system that stalls does not hold up calls to others.
func TestCompoundWaitsInTheLaneOfItsObject(t *testing.T) {
	var server atomic.Pointer[rpc.Server]
	var calls atomic.Int32
	s := treeSiteOf(t, func(fs vfs.FileSystem) vfs.FileSystem {
		return vfstest.Hesitant(&watched{fs, t, &server, &calls}, "Lookup", "GetAttr")
	}, "/one", "/two")
	server.Store(s.RPC)
	var ops []nfs4test.Op
	for range 3 {
		for _, name := range []string{"one", "two"} {
			ops = append(append(ops, walk(name, "dir")...), getattr(wire.Fattr4Size))
		}
	}
	if r := s.Peer(1).Compound(ops...); r.Status != wire.NFS4OK {
		t.Fatal(r.Status, statuses(r))
	}
	if n := calls.Load(); n != 12 {
		t.Errorf("the file systems were called %d times", n)
	}
}
