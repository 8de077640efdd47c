package nfs4

import (
	"cmp"
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Sizes of a READDIR result without its entries, in bytes (RFC 8881 §18.23.2): the verifier
// before the entries; the end of the list and eof after them.
const (
	listHead = wire.NFS4VerifierSize
	listTail = 4 + 4
)

// The server adds cookieShift to each of the file system's cookies before it sends them, because
// the protocol reserves the cookies 0, 1 and 2 (RFC 8881 §18.23.3).
const cookieShift = 2

// A lister writes entries into the result of a READDIR until the result is full.
type lister struct {
	k *Compound
	f *facts
	// asked holds the attributes that the client wants of each entry. plus is true if some
	// of them differ from entry to entry and do not follow from the name.
	asked wire.Bitmap4
	needs need
	plus  bool
	// maxcount is the client's limit for the result. left is the number of bytes that the result
	// may still take, dirLeft the number that names and cookies may still take: it comes from
	// dircount, which is a hint.
	maxcount      uint32
	left, dirLeft int
	entries       int
	full          bool
	// status is the error that ended the listing, if the error does not belong to one entry.
	status Status
	// next is the cookie at which the file system's listing continues.
	next uint64
	// aside is the entry for which the listing was interrupted.
	aside aside
}

// An aside is an entry for which the lister interrupts the listing, to look it up (turnAside): it may lead
// into another export, or the file system listed it without attributes.
type aside struct {
	set    bool
	n      int // the name's length
	name   [maxName]byte
	fileID uint64
	cookie uint64
}

// noVerifier is the cookie verifier. It is always zero, because cookies stay valid while a
// directory changes.
var noVerifier wire.Verifier4

// readdir is READDIR (RFC 8881 §18.23, RFC 7530 §16.24).
func readdir(k *Compound, args *wire.Readdir4Args) Status {
	set, needs, s := k.answer(&args.AttrRequest)
	switch {
	case s != wire.NFS4OK:
		return s
	case args.Cookie == 1 || args.Cookie == 2, args.Cookie == 0 && args.Cookieverf != noVerifier:
		// A new listing has no verifier. Linux's server answers the same.
		return wire.NFS4ErrBadCookie
	case args.Cookieverf != noVerifier:
		return wire.NFS4ErrNotSame
	}
	l := &k.list
	*l = lister{
		k: k, f: k.newFacts(k.Current), maxcount: min(args.Maxcount, nfs.MaxDirectory),
		dirLeft: int(cmp.Or(min(args.Dircount, nfs.MaxDirectory), nfs.MaxDirectory)), // 0 is no hint
		next:    args.Cookie - min(args.Cookie, cookieShift),
	}
	l.asked, l.needs = set, needs
	differ := l.asked.And(&ofObject)
	l.plus = !differ.IsEmpty()
	l.left = min(int(l.maxcount), k.Room()) - listHead - listTail
	if l.left < 0 {
		return l.tooSmall()
	}
	return l.list()
}

// tooSmall returns the status of a result that has no room for one entry: NFS4ERR_TOOSMALL if the client's
// maxcount is the lowest limit, otherwise that of a reply that is too big.
func (l *lister) tooSmall() Status {
	if int(l.maxcount) <= l.k.Room() {
		return wire.NFS4ErrTooSmall
	}
	return l.k.tooBig()
}

// list writes the result of the READDIR.
func (l *lister) list() Status {
	k := l.k
	start := k.W.Len()
	s := l.f.gatherShared(l.needs)
	if s != wire.NFS4OK {
		return s
	}
	k.W.FixedOpaque(noVerifier[:])
	eof := false
	for more := true; more; {
		var err error
		k.want(l.needs)
		eof, err = k.FS().ReadDir(&k.Op, k.Current.Handle, l.next, l.plus, &k.Attr, l.emit)
		k.want(0)
		switch {
		case err != nil:
			return k.Failed(err)
		case l.status != wire.NFS4OK:
			return l.status
		}
		if more = l.aside.set; more {
			if s = l.turnAside(); s != wire.NFS4OK {
				return s
			}
			more = !l.full
		}
	}
	if l.full && l.entries == 0 {
		k.W.Truncate(start)
		return l.tooSmall()
	}
	k.W.Bool(false)
	k.W.Bool(eof && !l.full)
	return wire.NFS4OK
}

// emit takes one entry from the file system. It returns false to stop the listing, because the
// entry does not fit, needs a lookup of its own (see aside), or failed.
func (l *lister) emit(e *vfs.DirEntry) bool {
	switch {
	case string(e.Name) == ".", string(e.Name) == "..",
		len(e.Name) > maxName: // no client could look it up
		l.next = e.Cookie
		return true
	case l.plus && (!e.HasAttr || !l.k.Program.state.Clear(state.UseStat)), l.k.mayLead(l.k.Current.Export, e.Name):
		l.aside.set, l.aside.n = true, copy(l.aside.name[:], e.Name)
		l.aside.fileID, l.aside.cookie = e.FileID, e.Cookie
		return false
	}
	l.f.object.Handle = e.Handle
	l.f.attr, l.f.covered, l.f.failure = &e.Attr, e.FileID, wire.NFS4OK
	if l.status = l.f.names(l.needs); l.status != wire.NFS4OK {
		return false
	}
	return l.writeEntry(e.Name, e.Cookie, &l.asked)
}

// writeEntry writes an entry with the attributes in set, from l.f. It returns false if the entry
// does not fit.
func (l *lister) writeEntry(name []byte, cookie uint64, set *wire.Bitmap4) bool {
	w := l.k.W
	dirSize := 8 + 4 + len(name) + xdr.Pad(len(name))
	// dircount never excludes the first entry, because it is a hint about how much of the
	// directory to read at a time, and not a limit of the result.
	if dirSize > l.dirLeft && l.entries > 0 {
		l.full = true
		return false
	}
	start := w.Len()
	w.Bool(true)
	w.Uint64(cookie + cookieShift)
	w.Opaque(name)
	l.f.writeAttributes(w, *set)
	if size := w.Len() - start; w.Overflow() || size > l.left {
		w.Truncate(start)
		l.full = true
		return false
	} else {
		l.left -= size
	}
	l.dirLeft -= dirSize
	l.entries++
	l.next = cookie
	return true
}

// onlyFailure is the attribute set of an entry whose attributes cannot be read.
var onlyFailure = wire.Bits(wire.Fattr4RdattrError)

// turnAside looks up and writes the entry for which the listing was interrupted.
func (l *lister) turnAside() Status {
	k, a := l.k, &l.aside
	a.set = false
	name := a.name[:a.n]
	into, s := k.below(&k.Current, name)
	if s == wire.NFS4OK {
		if into != nil {
			s = l.enterJunction(into)
		} else {
			s = l.lookAgain(name)
		}
	}
	switch {
	case s == wire.NFS4ErrNoEnt: // removed meanwhile
		l.next = a.cookie
		return l.shared()
	case s < 0:
		return s
	case s == wire.NFS4OK || l.asked.Has(wire.Fattr4RdattrError):
	case s == wire.NFS4ErrWrongSec: // READDIR has this error only within an entry
		return wire.NFS4ErrAccess
	default:
		return s
	}
	set := &l.asked
	if l.f.failure = s; s != wire.NFS4OK {
		set = &onlyFailure
	}
	l.f.covered = a.fileID
	l.writeEntry(name, a.cookie, set)
	return l.shared()
}

// shared resets l.f, and looks up the facts that all entries of the listed directory share.
func (l *lister) shared() Status {
	l.f = l.k.newFacts(l.k.Current)
	return l.f.gatherShared(l.needs)
}

// ofDirectory holds the attributes of an entry that do not depend on the export that the entry leads to.
var ofDirectory = wire.Bits(wire.Fattr4RdattrError, wire.Fattr4MountedOnFileID)

// enterJunction fills l.f for an entry that is the root of another export. It returns
// NFS4ERR_WRONGSEC if that export does not accept the caller's flavor and the client asked for more
// than the attributes in ofDirectory (RFC 8881 §18.29.4).
func (l *lister) enterJunction(e *export.Export) Status {
	k := l.k
	if !e.Admits(k.Call.Conn, &k.Call.Cred) {
		l.f = k.newFacts(Object{e, e.FS.Root()})
		if more := l.asked.Without(&ofDirectory); !more.IsEmpty() {
			return wire.NFS4ErrWrongSec
		}
		return wire.NFS4OK
	}
	if !e.Enter(k.Call.Conn) {
		return wire.NFS4ErrDelay
	}
	defer e.Leave(k.Call.Conn)
	if s := l.may(Object{e, e.FS.Root()}); s != wire.NFS4OK {
		return s
	}
	dir, try := k.Current, k.Op.Try
	k.Current = Object{e, e.FS.Root()}
	// Every user may read attributes, so the caller's groups are not needed.
	e.Identify(&k.Call.Cred, &k.looked, &k.Cred)
	l.f = k.newFacts(k.Current)
	l.f.attr = &k.Attr
	// A stalled mount must not hold up the listing. So if the client asked for rdattr_error, gather
	// does not wait for a mount; the server then sends the entry without its attributes.
	k.Op.Try = try || e.Mount() != nil && l.asked.Has(wire.Fattr4RdattrError)
	s := l.f.gather(l.needs &^ needCovered)
	if k.Op.Try = try; s == Blocked && !try {
		s = wire.NFS4ErrDelay
	}
	k.Current = dir
	dir.Export.Identify(&k.Call.Cred, &k.looked, &k.Cred)
	return s
}

// lookAgain fills l.f for an entry that the file system listed without attributes.
func (l *lister) lookAgain(name []byte) Status {
	k := l.k
	var dir vfs.Attr
	k.want(l.needs)
	defer k.want(0)
	o, err := k.FS().Lookup(&k.Op, k.Current.Handle, name, &dir)
	if err == nil && !o.HasAttr {
		err = k.FS().GetAttr(&k.Op, o.Handle, &o.Attr)
	}
	if errors.Is(err, syscall.EXDEV) {
		var e *export.Export
		if e, err = k.cross(err, name); err == nil {
			return l.enterJunction(e)
		}
	}
	switch {
	case errors.Is(err, syscall.ESTALE):
		return wire.NFS4ErrNoEnt
	case err != nil:
		return k.notFound(err)
	}
	if s := l.may(Object{k.Current.Export, o.Handle}); s != wire.NFS4OK {
		return s
	}
	k.Attr = o.Attr
	l.f.object.Handle, l.f.attr = o.Handle, &k.Attr
	return l.f.names(l.needs)
}
