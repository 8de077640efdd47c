package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// remove is REMOVE, for files and directories (RFC 8881 §18.25, RFC 7530 §16.26).
func remove(k *Compound) Status {
	var args wire.Remove4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if s := k.checkName(args.Target); s != wire.NFS4OK {
		return s
	}
	if s := k.mayChangeNames(); s != wire.NFS4OK {
		return s
	}
	if s := k.leads(&k.Current, args.Target, wire.NFS4ErrAccess); s != wire.NFS4OK {
		return s
	}
	if s := k.removable(&k.Current, args.Target); s != wire.NFS4OK {
		return s
	}
	ch, err := k.unlink(args.Target)
	if err != nil {
		return k.unchanged(err)
	}
	res := wire.Remove4ResOK{Cinfo: changeInfo(&ch)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// unlink removes a name from the current directory. It tries to remove a file first. If the
// file system answers that the name is a directory's, it removes a directory.
func (k *Compound) unlink(name []byte) (vfs.Change, error) {
	dir := k.Current.Handle
	ch, err := k.FS().Remove(&k.Op, dir, name)
	isDir := errors.Is(err, syscall.EISDIR)
	if errors.Is(err, syscall.EPERM) { // POSIX allows EPERM for a directory too
		o, lookErr := k.FS().Lookup(&k.Op, dir, name, &k.Attr)
		if blocked(lookErr) {
			return ch, lookErr
		}
		isDir = lookErr == nil && o.HasAttr && o.Attr.Type == vfs.Directory
	}
	if isDir {
		return k.FS().Rmdir(&k.Op, dir, name)
	}
	return ch, err
}

// removable checks that the object behind a name in directory o may lose that name. It
// returns NFS4ERR_FILE_OPEN if another machine has the object open and denies writing (RFC
// 8881 §18.25.4, RFC 7530 §16.26.5).
func (k *Compound) removable(o *Object, name []byte) Status {
	m := k.Program.state
	if !m.Guards() {
		return wire.NFS4OK
	}
	found, err := o.Export.FS.Lookup(k.opIn(o), o.Handle, name, &k.Attr)
	switch {
	case blocked(err):
		return k.Failed(err)
	case err != nil:
		return wire.NFS4OK // the removal reports the error
	}
	err = m.GuardName(o.Export.FS, found.Handle, k.Call.Conn.Peer.Addr(), k.Op.Try)
	switch {
	case blocked(err):
		return k.Failed(err)
	case err != nil:
		return wire.NFS4ErrFileOpen
	}
	return wire.NFS4OK
}
