package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A borrowed is an open file for one operation: the file of a stateid, or, if the stateid
// is special, a file opened for this operation with the caller's rights. As for READ and
// WRITE, a file's owner may read and write it whatever the mode is (RFC 1813 §4.4).
type borrowed struct {
	vfs.File
	own bool
}

func (b *borrowed) giveBack() {
	if b.own {
		b.Close()
	}
}

// borrow returns an open file of object o for one operation: the file that the stateid id has open
// for the access want or, if it has none, a file that borrow opens. borrow returns NFS4ERR_NOTSUPP
// if it has to open the file and the file system does not implement vfs.Opener.
func (k *Compound) borrow(o *Object, id *wire.StateID4, want state.Access) (borrowed, Status) {
	f, s := k.openFor(o, id, want)
	if s != wire.NFS4OK || f != nil {
		return borrowed{File: f}, s
	}
	opener, ok := vfs.As[vfs.Opener](o.Export.FS)
	if !ok {
		return borrowed{}, wire.NFS4ErrNotSupp
	}
	op := k.opIn(o)
	f, err := opener.Open(op, o.Handle, opens(want)|vfs.OpenOwner)
	if err == nil {
		return borrowed{f, true}, wire.NFS4OK
	}
	if blocked(err) {
		return borrowed{}, k.Failed(err)
	}
	if err := o.Export.FS.GetAttr(op, o.Handle, &k.Attr); err != nil {
		return borrowed{}, k.Failed(err)
	}
	if s := k.mustBeRegular(k.Attr.Type); s != wire.NFS4OK {
		return borrowed{}, s
	}
	return borrowed{}, k.Failed(err)
}

// borrowSparse is like borrow, on the current object, for an operation on holes. It returns
// NFS4ERR_NOTSUPP if the file system does not know about holes.
func (k *Compound) borrowSparse(id *wire.StateID4, want state.Access) (vfs.Sparse, borrowed, Status) {
	fs, ok := vfs.As[vfs.Sparse](k.FS())
	if !ok {
		return nil, borrowed{}, wire.NFS4ErrNotSupp
	}
	f, s := k.borrow(&k.Current, id, want)
	return fs, f, s
}

// reserve is the common part of ALLOCATE and DEALLOCATE, which have the same arguments.
func (k *Compound) reserve(do func(fs vfs.Sparse, f vfs.File, offset, length uint64) error) Status {
	var args wire.Allocate4Args
	args.Decode(k.Args)
	switch {
	case !k.Decoded():
		return wire.NFS4ErrBadXDR
	case args.Length == 0, args.Offset > 1<<64-1-args.Length:
		return wire.NFS4ErrInvalid
	}
	fs, f, s := k.borrowSparse(&args.Stateid, state.AccessWrite)
	if s != wire.NFS4OK {
		return s
	}
	defer f.giveBack()
	if err := do(fs, f.File, args.Offset, args.Length); err != nil {
		return k.closedOr(err)
	}
	return wire.NFS4OK
}

// allocate is ALLOCATE (RFC 7862 §15.1).
func allocate(k *Compound) Status {
	return k.reserve(func(fs vfs.Sparse, f vfs.File, offset, length uint64) error {
		return fs.Allocate(&k.Op, f, offset, length)
	})
}

// deallocate is DEALLOCATE (RFC 7862 §15.4).
func deallocate(k *Compound) Status {
	return k.reserve(func(fs vfs.Sparse, f vfs.File, offset, length uint64) error {
		return fs.Deallocate(&k.Op, f, offset, length)
	})
}

// seek is SEEK (RFC 7862 §15.11). It returns NFS4ERR_NXIO if the offset is not within the
// file, and NFS4ERR_UNION_NOTSUPP if the client looks for neither data nor a hole.
func seek(k *Compound) Status {
	var args wire.Seek4Args
	args.Decode(k.Args)
	what := vfs.SeekData
	switch {
	case !k.Decoded():
		return wire.NFS4ErrBadXDR
	case args.What == wire.NFS4ContentHole:
		what = vfs.SeekHole
	case args.What != wire.NFS4ContentData:
		return wire.NFS4ErrUnionNotSupp
	}
	fs, f, s := k.borrowSparse(&args.Stateid, state.AccessRead)
	if s != wire.NFS4OK {
		return s
	}
	defer f.giveBack()
	at, eof, err := fs.Seek(&k.Op, f.File, args.Offset, what)
	if err != nil {
		return k.closedOr(err)
	}
	res := wire.SeekRes4{EOF: eof, Offset: at}
	res.Encode(k.W)
	return wire.NFS4OK
}

// advise is IO_ADVISE (RFC 7862 §15.5). The server follows no advice and says so in the
// result.
func advise(k *Compound) Status {
	var args wire.IOAdvise4Args
	args.Decode(k.Args)
	switch {
	case !k.Decoded():
		return wire.NFS4ErrBadXDR
	case args.Offset > 1<<64-1-args.Count:
		return wire.NFS4ErrInvalid
	}
	_, s := k.OpenFor(&args.Stateid, state.AccessRead)
	if s == wire.NFS4OK {
		s = k.regular()
	}
	if s != wire.NFS4OK {
		return s
	}
	res := wire.IOAdvise4ResOK{Hints: wire.Bits(uint32(wire.IOAdvise4Normal))}
	res.Encode(k.W)
	return wire.NFS4OK
}
