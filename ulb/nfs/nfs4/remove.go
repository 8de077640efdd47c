package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
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
	if s := k.leads(&k.Current, args.Target, wire.NFS4ErrAccess); s != wire.NFS4OK {
		return s
	}
	if s := k.may(state.UseRemove, &k.Current, args.Target, nil); s != wire.NFS4OK {
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
// file system answers that the name belongs to a directory, unlink removes the directory.
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
