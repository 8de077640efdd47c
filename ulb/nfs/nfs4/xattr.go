package nfs4

import (
	"bytes"
	"cmp"
	"errors"
	"hash/crc64"
	"slices"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Extended attributes of users (RFC 8276) have names without the prefix "user." here, as on the wire. No
// deny mode concerns them (§8.8). Neither a value nor a list of names is ever placed directly, because RFC
// 8267 §6.1 does not list them.

// The binding and the file systems have the same limit.
const _ = uint(nfs.MaxXattr-vfs.MaxXattr) + uint(vfs.MaxXattr-nfs.MaxXattr)

// keepsXattrs returns fs as a vfs.Xattrs, and whether it has extended attributes.
func keepsXattrs(fs vfs.FileSystem) (vfs.Xattrs, bool) {
	x, ok := vfs.As[vfs.Xattrs](fs)
	return x, ok && x.KeepsXattrs()
}

// putXattrSupport writes xattr_support (RFC 8276 §8.2.1) of an object, which in a listing may be in another file
// system than the directory.
func putXattrSupport(w *xdr.Writer, f *facts) {
	_, keeps := keepsXattrs(f.object.Export.FS)
	w.Bool(keeps)
}

// xattrs returns the current object's file system for an operation on the attribute of this name. The
// rules for names are those for names of files (RFC 8276 §8.1); the file system checks the others.
func (k *Compound) xattrs(name []byte) (vfs.Xattrs, Status) {
	fs, ok := keepsXattrs(k.FS())
	switch {
	case !ok:
		return nil, wire.NFS4ErrNotSupp
	case k.Current.Export.UTF8 && !utf8.Valid(name):
		return nil, wire.NFS4ErrInvalid
	}
	return fs, wire.NFS4OK
}

// xattrFailed returns the status of an operation on extended attributes that failed with err.
func (k *Compound) xattrFailed(err error) Status {
	switch {
	case errors.Is(err, syscall.ENODATA):
		return wire.NFS4ErrNoXattr
	case !errors.Is(err, syscall.E2BIG):
		return k.Failed(err)
	case k.Number == wire.OpSetXattr:
		return wire.NFS4ErrXattr2Big
	}
	// Local programs have given the object more names than the kernel lists. LISTXATTRS has no status for
	// that (RFC 8276 §8.4.5).
	return wire.NFS4ErrServerFault
}

// getXattr is GETXATTR (RFC 8276 §8.4.1). The file system writes the value into the reply.
func getXattr(k *Compound, args *wire.GetXattr4Args) Status {
	fs, s := k.xattrs(args.Name)
	if s != wire.NFS4OK {
		return s
	}
	room := min((k.Room()-4)&^3, nfs.MaxXattr)
	if room < 0 {
		return k.tooBig()
	}
	at := k.W.Len()
	k.W.Uint32(0)
	buf := k.W.Reserve(room)
	n, err := fs.GetXattr(&k.Op, k.Current.Handle, args.Name, buf)
	switch {
	case errors.Is(err, syscall.ERANGE):
		return k.tooBig()
	case err != nil:
		return k.xattrFailed(err)
	}
	end := n + xdr.Pad(n)
	clear(buf[n:end])
	k.W.Truncate(at + 4 + end)
	k.W.PatchUint32(at, uint32(n))
	return wire.NFS4OK
}

// setXattr is SETXATTR (RFC 8276 §8.4.2).
func setXattr(k *Compound, args *wire.SetXattr4Args) Status {
	fs, s := k.mayChangeXattr(args.Key)
	if s != wire.NFS4OK {
		return s
	}
	ch, err := fs.SetXattr(&k.Op, k.Current.Handle, args.Key, args.Value, xattrModes[args.Option])
	if err != nil {
		return k.xattrFailed(err)
	}
	info := changeInfo(&ch)
	info.Encode(k.W)
	return wire.NFS4OK
}

var xattrModes = [...]vfs.XattrMode{
	wire.SetXattr4Either: vfs.XattrEither, wire.SetXattr4Create: vfs.XattrCreate, wire.SetXattr4Replace: vfs.XattrReplace,
}

// removeXattr is REMOVEXATTR (RFC 8276 §8.4.4).
func removeXattr(k *Compound, args *wire.RemoveXattr4Args) Status {
	fs, s := k.mayChangeXattr(args.Name)
	if s != wire.NFS4OK {
		return s
	}
	ch, err := fs.RemoveXattr(&k.Op, k.Current.Handle, args.Name)
	if err != nil {
		return k.xattrFailed(err)
	}
	info := changeInfo(&ch)
	info.Encode(k.W)
	return wire.NFS4OK
}

// mayChangeXattr is xattrs for an operation that changes the attribute.
func (k *Compound) mayChangeXattr(name []byte) (vfs.Xattrs, Status) {
	fs, s := k.xattrs(name)
	if s == wire.NFS4OK {
		s = k.may(state.UseAttributes, &k.Current, nil, nil)
	}
	return fs, s
}

// emptyXattrList is the size of a LISTXATTRS4resok without names, in bytes: cookie, number of names, eof.
const emptyXattrList = 8 + 4 + 4

// listXattrs is LISTXATTRS (RFC 8276 §8.4.3).
func listXattrs(k *Compound, args *wire.ListXattrs4Args) Status {
	fs, s := k.xattrs(nil)
	if s != wire.NFS4OK {
		return s
	}
	l := xattrLists.Get().(*xattrList)
	defer xattrLists.Put(l)
	n, err := fs.ListXattrs(&k.Op, k.Current.Handle, l.buf[:])
	if err != nil {
		return k.xattrFailed(err)
	}
	l.sort(l.buf[:n])
	left := min(int(min(args.Maxcount, 1<<30)), k.Room()) - emptyXattrList
	names, rest := l.page(args.Cookie, left)
	if left < 0 || len(names) == 0 && rest {
		if int64(args.Maxcount) <= int64(k.Room()) {
			return wire.NFS4ErrTooSmall
		}
		return k.tooBig()
	}
	next := args.Cookie
	if len(names) > 0 {
		next = names[len(names)-1].cookie
	}
	k.W.Uint64(next)
	k.W.Uint32(uint32(len(names)))
	for i := range names {
		k.W.Opaque(names[i].name)
	}
	k.W.Bool(!rest)
	return wire.NFS4OK
}

// An xattrList holds the names of an object's extended attributes.
//
// A file system lists them in any order, and in another one after a change. So a cookie is no position in
// its list: it is a hash of the name, and a listing is in the order of the cookies. A name that is there
// all the time is then listed once, whatever happens to others between two LISTXATTRS.
type xattrList struct {
	buf   [vfs.MaxXattr]byte
	names []listedXattr
}

// A listedXattr is a name with its cookie, which is not 0. LISTXATTRS with the cookie goes on behind all names
// that have it.
type listedXattr struct {
	cookie uint64
	name   []byte
}

var xattrLists = sync.Pool{New: func() any { return new(xattrList) }}

// sort splits a list of names, each with a zero byte at its end, and orders the names by their cookies.
func (l *xattrList) sort(list []byte) {
	l.names = l.names[:0]
	for len(list) > 0 {
		var name []byte
		name, list, _ = bytes.Cut(list, []byte{0})
		l.names = append(l.names, listedXattr{xattrCookie(name), name})
	}
	slices.SortFunc(l.names, func(a, b listedXattr) int { return cmp.Compare(a.cookie, b.cookie) })
}

// xattrCookie returns the cookie of a name. It is the same after a restart of the server.
func xattrCookie(name []byte) uint64 { return max(crc64.Checksum(name, cookieTable), 1) }

var cookieTable = crc64.MakeTable(crc64.ECMA)

// page returns the names behind a cookie that take at most left bytes on the wire, and whether there are
// further ones. Names with one cookie are returned together.
func (l *xattrList) page(behind uint64, left int) (names []listedXattr, rest bool) {
	names = l.names
	for len(names) > 0 && names[0].cookie <= behind {
		names = names[1:]
	}
	for i, n := range names {
		if left -= 4 + len(n.name) + xdr.Pad(len(n.name)); left < 0 {
			for i > 0 && names[i-1].cookie == n.cookie {
				i--
			}
			return names[:i], true
		}
	}
	return names, false
}
