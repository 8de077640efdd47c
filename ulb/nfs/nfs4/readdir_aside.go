package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// onlyFailure is the attribute set of an entry whose attributes cannot be read.
var onlyFailure = wire.Bits(wire.Fattr4RdattrError)

// turnAside looks up and writes the entry for which the listing was interrupted.
func (l *lister) turnAside() Status {
	k, a := l.k, &l.aside
	a.set = false
	name := a.name[:a.n]
	into, s := k.below(name)
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

// ofDirectory holds the attributes of an entry that do not depend on the export that the
// entry leads to.
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
	k.Attr = o.Attr
	l.f.object.Handle, l.f.attr = o.Handle, &k.Attr
	return l.f.names(l.needs)
}
