package nfs4_test

import (
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A pieced is a file system with a large disk, which only notes what it is asked to allocate and to free.
type pieced struct {
	*memfs.FS
	fails int // the number of the call that fails

	mu    sync.Mutex
	calls []piece
}

type piece struct {
	offset, length uint64
	durable        bool
}

func (p *pieced) Allocate(op *vfs.Op, _ vfs.File, offset, length uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, piece{offset, length, !op.Async})
	if len(p.calls) == p.fails {
		return syscall.EDQUOT
	}
	return nil
}

func (p *pieced) Deallocate(op *vfs.Op, f vfs.File, offset, length uint64) error {
	return p.Allocate(op, f, offset, length)
}

func (p *pieced) Usage(*vfs.Op, vfs.Handle) (vfs.Usage, error) {
	return vfs.Usage{FreeBytes: 1 << 30}, nil
}

// ALLOCATE and DEALLOCATE change a long range in pieces, each once, also if the compound gives way after each of
// them. Only the last piece waits for the disk.
func TestLongRangesAreReservedInPieces(t *testing.T) {
	const size = 3*nfs4.ReservePiece + 5
	want := []piece{
		{7, nfs4.ReservePiece, false}, {7 + nfs4.ReservePiece, nfs4.ReservePiece, false},
		{7 + 2*nfs4.ReservePiece, nfs4.ReservePiece, false}, {7 + 3*nfs4.ReservePiece, 5, true},
	}
	for _, gives := range []bool{false, true} {
		fs := &pieced{FS: memfs.New(memfs.Options{RootMode: 0o777})}
		s := openSiteOver(t, fs)
		if gives {
			s.Program.GiveWay()
		}
		f := newFiler(t, s, 2)
		o := f.create("file", "me", both, 0)
		f.want(wire.NFS4OK, putFH(o.fh), opAllocate(o.Stateid, 7, size), opDeallocate(o.Stateid, 7, size))
		if !slices.Equal(fs.calls, slices.Concat(want, want)) {
			t.Errorf("giving way %v: %v", gives, fs.calls)
		}

		fs.calls, fs.fails = nil, 2
		f.want(wire.NFS4ErrDQuot, putFH(o.fh), opAllocate(o.Stateid, 7, size))
		if !slices.Equal(fs.calls, want[:2]) {
			t.Errorf("giving way %v, the second piece fails: %v", gives, fs.calls)
		}
	}
}

// An ALLOCATE for which there is not enough room takes none of it.
func TestTooLongRangesTakeNoSpace(t *testing.T) {
	fs := &pieced{FS: memfs.New(memfs.Options{RootMode: 0o777})}
	f := newFiler(t, openSiteOver(t, fs), 2)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4ErrNoSpace, putFH(o.fh), opAllocate(o.Stateid, 0, 1<<30+1))
	f.want(wire.NFS4ErrFBig, putFH(o.fh), opAllocate(o.Stateid, 1<<63, nfs4.ReservePiece+1))
	if len(fs.calls) > 0 {
		t.Errorf("%v", fs.calls)
	}
}
