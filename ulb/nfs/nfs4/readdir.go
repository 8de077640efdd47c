package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Sizes of a READDIR's result without its entries (RFC 8881 §18.23.2), in bytes: the
// verifier, and behind the entries the end of the list and eof.
const (
	listHead = wire.NFS4VerifierSize
	listTail = 4 + 4
)

// cookieShift is what cookies on the wire are higher than those of a file system: 0, 1
// and 2 have meanings of their own there (RFC 8881 §18.23.3).
const cookieShift = 2

// A lister puts entries into the result of a READDIR while they fit.
type lister struct {
	k *Compound
	f *facts
	// asked are the attributes to be listed. plus: some of them differ from entry to
	// entry and are not known from the listing alone.
	asked wire.Bitmap4
	needs need
	plus  bool
	// maxcount is what the client has room for; left what the result may still take;
	// dirLeft what names and cookies may (dircount), a hint, if hinted.
	maxcount      uint32
	left, dirLeft int
	hinted        bool
	entries       int
	full          bool
	// status is why the listing was left where that was for no entry's sake.
	status Status
	// next is where the file system's listing goes on.
	next uint64
	// aside is an entry for which the listing was left.
	aside aside
}

// An aside is an entry that the file system's listing does not tell enough of: it may
// lead into another export, or its attributes are missing. What is to be known of it is
// asked when the listing has been left.
type aside struct {
	set    bool
	n      int // the name's length
	name   [maxName]byte
	fileID uint64
	cookie uint64
}

// noVerifier is the cookie verifier: cookies stay good while a directory changes, so
// nothing has to be told apart.
var noVerifier wire.Verifier4

// readdir is READDIR (RFC 8881 §18.23, RFC 7530 §16.24).
func readdir(k *Compound) Status {
	var args wire.Readdir4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	p := k.plan(&args.AttrRequest)
	switch {
	case p.or != wire.NFS4OK:
		return p.or
	case args.Cookie == 1 || args.Cookie == 2, args.Cookie == 0 && args.Cookieverf != noVerifier:
		// A listing that begins has no verifier; Linux's server answers the same.
		return wire.NFS4ErrBadCookie
	case args.Cookieverf != noVerifier:
		return wire.NFS4ErrNotSame
	}
	l := &k.list
	*l = lister{
		k: k, f: k.newFacts(k.Current), maxcount: min(args.Maxcount, nfs.MaxDirectory),
		hinted: args.Dircount != 0, dirLeft: int(min(args.Dircount, nfs.MaxDirectory)),
		next: args.Cookie - min(args.Cookie, cookieShift),
	}
	l.asked, l.needs = p.set, p.needs
	differ := l.asked.And(&ofObject)
	l.plus = !differ.IsEmpty()
	l.left = min(int(l.maxcount), k.Room()) - listHead - listTail
	if l.left < 0 {
		return l.tooSmall()
	}
	return l.list()
}

// tooSmall is what a result without room for an entry is answered with: the client's
// own limit where that is the narrowest.
func (l *lister) tooSmall() Status {
	if int(l.maxcount) <= l.k.Room() {
		return wire.NFS4ErrTooSmall
	}
	return l.k.tooBig()
}

// list writes the result.
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

// emit takes one entry; false: the listing is left, because the entry does not fit or is
// turned aside to.
func (l *lister) emit(e *vfs.DirEntry) bool {
	switch {
	case string(e.Name) == ".", string(e.Name) == "..",
		len(e.Name) > maxName: // which no client could ask for
		l.next = e.Cookie
		return true
	case l.plus && !e.HasAttr, l.k.mayLead(l.k.Current.Export, e.Name):
		l.aside.set, l.aside.n = true, copy(l.aside.name[:], e.Name)
		l.aside.fileID, l.aside.cookie = e.FileID, e.Cookie
		return false
	}
	l.f.object.Handle = e.Handle
	l.f.attr, l.f.covered, l.f.failure = &e.Attr, e.FileID, wire.NFS4OK
	if l.status = l.f.names(l.needs); l.status != wire.NFS4OK {
		return false
	}
	return l.put(e.Name, e.Cookie, &l.asked)
}

// put writes an entry with a set of attributes of l.f; false where it does not fit.
func (l *lister) put(name []byte, cookie uint64, set *wire.Bitmap4) bool {
	w := l.k.W
	dirSize := 8 + 4 + len(name) + xdr.Pad(len(name))
	// dircount never keeps the first entry out: it says how much of a directory is worth
	// reading at a time, not what fits.
	if l.hinted && dirSize > l.dirLeft && l.entries > 0 {
		l.full = true
		return false
	}
	start := w.Len()
	w.Bool(true)
	w.Uint64(cookie + cookieShift)
	w.Opaque(name)
	l.f.put(w, set)
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
