package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// reservePiece is the number of bytes that ALLOCATE and DEALLOCATE change between two checks of Compound.overdue. To
// allocate them takes a file system in memory some 20 ms.
const reservePiece = 64 << 20

// reserve is the common part of ALLOCATE and DEALLOCATE, which have the same arguments. If the compound is overdue
// after a piece of the range, the operation waits for its next turn, and continues with the next piece. Only the last
// piece waits until all of them are durable.
func (k *Compound) reserve(args *wire.Allocate4Args, do func(vfs.Sparse, *vfs.Op, vfs.File, uint64, uint64) error) Status {
	if args.Length == 0 || args.Offset > 1<<64-1-args.Length {
		return wire.NFS4ErrInvalid
	}
	if args.Length > reservePiece && k.Op.Try {
		return k.Block(k.FS().Lane())
	}
	fs, f, s := k.borrowSparse(&args.Stateid, state.AccessWrite)
	if s != wire.NFS4OK {
		return s
	}
	defer f.giveBack()
	if k.Number == wire.OpAllocate && args.Length > reservePiece && k.reserved == 0 {
		if s := k.roomFor(args.Offset, args.Length); s != wire.NFS4OK {
			return s
		}
	}
	for {
		left := args.Length - k.reserved
		piece := min(left, reservePiece)
		op := k.Op
		op.Async = op.Async || piece < left
		if err := do(fs, &op, f.File, args.Offset+k.reserved, piece); err != nil {
			return k.closedOr(err)
		}
		if k.reserved += piece; piece == left {
			return wire.NFS4OK
		}
		if k.overdue() {
			lane := k.FS().Lane()
			return k.WaitFor(func() { k.Resume(lane) })
		}
	}
}

// roomFor returns NFS4ERR_FBIG or NFS4ERR_NOSPC if a range of the current file is beyond the largest file of the file
// system, or larger than its free space; otherwise NFS4_OK. Without roomFor, such an ALLOCATE would take all free space,
// piece by piece.
func (k *Compound) roomFor(offset, length uint64) Status {
	fs, h := k.FS(), k.Current.Handle
	info, err := fs.Info(&k.Op, h)
	if err != nil {
		return k.Failed(err)
	}
	usage, err := fs.Usage(&k.Op, h)
	if err != nil {
		return k.Failed(err)
	}
	if err := fs.GetAttr(&k.Op, h, &k.Attr); err != nil {
		return k.Failed(err)
	}
	switch {
	case length > info.MaxFileSize || offset > info.MaxFileSize-length:
		return wire.NFS4ErrFBig
	case length > usage.FreeBytes+k.Attr.Used:
		return wire.NFS4ErrNoSpace
	}
	return wire.NFS4OK
}

// allocate is ALLOCATE (RFC 7862 §15.1).
func allocate(k *Compound, args *wire.Allocate4Args) Status {
	return k.reserve(args, vfs.Sparse.Allocate)
}

// deallocate is DEALLOCATE (RFC 7862 §15.4).
func deallocate(k *Compound, args *wire.Allocate4Args) Status {
	return k.reserve(args, vfs.Sparse.Deallocate)
}
