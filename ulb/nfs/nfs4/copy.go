package nfs4

import (
	"errors"
	"syscall"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A borrowed is an open file for one operation: the file of a stateid or, for a special stateid, a file
// opened with the caller's rights. As for READ and WRITE, the owner may read and write it whatever the
// mode is (RFC 1813 §4.4).
type borrowed struct {
	vfs.File
	own bool
}

func (b *borrowed) giveBack() {
	if b.own {
		b.Close()
	}
}

// borrow returns an open file of object o for one operation: the file that the stateid id has open for the
// access want or, without one, a file that borrow opens. Without vfs.Opener, that is NFS4ERR_NOTSUPP.
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

// seek is SEEK (RFC 7862 §15.11). It returns NFS4ERR_NXIO if the offset is not within the
// file, and NFS4ERR_UNION_NOTSUPP if the client looks for neither data nor a hole.
func seek(k *Compound, args *wire.Seek4Args) Status {
	what := vfs.SeekData
	switch args.What {
	case wire.NFS4ContentData:
	case wire.NFS4ContentHole:
		what = vfs.SeekHole
	default:
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

// advise is IO_ADVISE (RFC 7862 §15.5). The server follows no advice and says so in the result.
func advise(k *Compound, args *wire.IOAdvise4Args) Status {
	if args.Offset > 1<<64-1-args.Count {
		return wire.NFS4ErrInvalid
	}
	_, s := k.openFor(&k.Current, &args.Stateid, state.AccessRead)
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

// Limits of one COPY: its bytes, and its time. If a COPY ends at a limit, the client continues with
// another COPY.
const (
	maxCopy     = 256 << 20
	maxCopyTime = 250 * time.Millisecond
	// copyPiece is the number of bytes copied between two checks of the time limit, and of Compound.overdue.
	copyPiece = 16 << 20
)

// copyRange is COPY within this server (RFC 7862 §15.2). It always copies in order and finishes
// before the reply, even if the client would accept a copy out of order or after the reply.
func copyRange(k *Compound, args *wire.Copy4Args) Status {
	switch {
	case args.SourceServer.Len() > 0:
		return wire.NFS4ErrPartnerNotsupp
	case k.Saved.key() == k.Current.key():
		return wire.NFS4ErrInvalid
	}
	p := pair{k: k, fromOffset: args.SrcOffset, toOffset: args.DstOffset, count: args.Count}
	if s := p.open(&args.SrcStateid, &args.DstStateid); s != wire.NFS4OK {
		return s
	}
	defer p.giveBack()
	verf := wire.Verifier4(k.FS().Verifier()) // read before the copy, for the reason given in write
	n, err := p.copy()
	if err != nil {
		return p.failed(err)
	}
	res := wire.Copy4ResOK{
		Response:     wire.WriteResponse4{Count: n, Committed: wire.Unstable4, Writeverf: verf},
		Requirements: wire.CopyRequirements4{Consecutive: true, Synchronous: true},
	}
	res.Encode(k.W)
	return wire.NFS4OK
}

// clone is CLONE (RFC 7862 §15.13). The file system clones the whole range at once, because no client may see a part
// of it.
func clone(k *Compound, args *wire.Clone4Args) Status {
	p := pair{k: k, fromOffset: args.SrcOffset, toOffset: args.DstOffset, count: args.Count}
	if s := p.open(&args.SrcStateid, &args.DstStateid); s != wire.NFS4OK {
		return s
	}
	defer p.giveBack()
	if err := p.fs.CloneRange(&k.Op, p.from.File, args.SrcOffset, p.to.File, args.DstOffset, args.Count); err != nil {
		return p.failed(err)
	}
	return wire.NFS4OK
}

// A pair holds the saved and the current file, open for a copy from the saved one to the current one.
type pair struct {
	k                           *Compound
	fs                          vfs.Copier
	from, to                    borrowed
	fromOffset, toOffset, count uint64
}

// open opens both files and checks the range. A count of 0 becomes the number of bytes up to the end of
// the source file. Under Op.Try open returns Blocked, because a copy may take long.
func (p *pair) open(from, to *wire.StateID4) Status {
	k := p.k
	var ok bool
	if p.fs, ok = vfs.As[vfs.Copier](k.FS()); !ok {
		return wire.NFS4ErrNotSupp
	}
	if k.Op.Try {
		return k.Block(k.FS().Lane())
	}
	var s Status
	if p.from, s = k.borrow(&k.Saved, from, state.AccessRead); s == wire.NFS4OK {
		p.to, s = k.borrow(&k.Current, to, state.AccessWrite)
	}
	if s == wire.NFS4OK {
		s = p.measure()
	}
	if s != wire.NFS4OK {
		p.giveBack()
	}
	return s
}

func (p *pair) giveBack() {
	p.from.giveBack()
	p.to.giveBack()
}

// measure checks the range, and replaces a count of 0.
func (p *pair) measure() Status {
	k := p.k
	if err := k.Saved.Export.FS.GetAttr(k.opIn(&k.Saved), k.Saved.Handle, &k.Attr); err != nil {
		return k.Failed(err)
	}
	size, count := k.Attr.Size, p.count
	if count == 0 && p.fromOffset <= size {
		count = size - p.fromOffset
	}
	apart := max(p.fromOffset, p.toOffset) - min(p.fromOffset, p.toOffset)
	overlap := count > apart && k.Saved.key() == k.Current.key()
	if p.fromOffset > size || count > size-p.fromOffset || p.toOffset > 1<<64-1-count || overlap {
		return wire.NFS4ErrInvalid
	}
	p.count = count
	return wire.NFS4OK
}

// copy copies the range, but stops after maxCopy bytes, after maxCopyTime, or when the compound is overdue. It
// returns an error only if it has copied nothing.
func (p *pair) copy() (done uint64, err error) {
	start := time.Now()
	left := min(p.count, maxCopy)
	for left > 0 && (done == 0 || time.Since(start) < maxCopyTime && !p.k.overdue()) {
		n, err := p.fs.CopyRange(&p.k.Op, p.from.File, p.fromOffset+done, p.to.File, p.toOffset+done, min(left, copyPiece))
		if err != nil && done == 0 {
			return 0, err
		}
		if err != nil || n == 0 {
			break // the next COPY reports the error; or the file was truncated
		}
		done += n
		left -= n
	}
	return done, nil
}

// failed returns the status of a COPY or CLONE that the file system refused.
func (p *pair) failed(err error) Status {
	switch {
	case errors.Is(err, syscall.EBADF):
		return p.k.closed()
	case errors.Is(err, syscall.EXDEV) && p.k.Number == wire.OpCopy:
		return wire.NFS4ErrNotSupp // the client then reads and writes instead
	}
	return p.k.Failed(err)
}
