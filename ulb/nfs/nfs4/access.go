package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Rights of ACCESS. NFSv4 numbers them as vfs does. LOOKUP and DELETE mean nothing for an
// object that is not a directory, and EXECUTE means nothing for a directory (RFC 8881
// §18.1.3).
const (
	allRights       = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute
	changing        = vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessXattrWrite
	notOfFiles      = vfs.AccessLookup | vfs.AccessDelete
	notOfDirs       = vfs.AccessExecute
	_          uint = uint(vfs.AccessExecute) - wire.Access4Execute     // does not compile if vfs's number is lower
	_          uint = uint(vfs.AccessXattrList) - wire.Access4XattrList // the same check for the highest bit
)

// access is ACCESS (RFC 8881 §18.1, RFC 7530 §16.1). On a read-only export it grants no right
// that allows a change.
func access(k *Compound) Status {
	var args wire.Access4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if args.Access&^k.rights() != 0 {
		return wire.NFS4ErrInvalid
	}
	want := vfs.Access(args.Access) & allRights
	if k.keepsXattrs() {
		want = vfs.Access(args.Access)
	}
	k.Attr = vfs.Attr{}
	granted, err := k.FS().Access(&k.Op, k.Current.Handle, want, &k.Attr)
	if err != nil {
		return k.Failed(err)
	}
	if k.Attr.Type != 0 {
		k.brought()
	}
	if k.Attr.Type == vfs.Directory {
		want &^= notOfDirs
	} else {
		want &^= notOfFiles
	}
	if k.Current.Export.ReadOnly {
		granted &^= changing
	}
	res := wire.Access4ResOK{Supported: uint32(want), Access: uint32(granted & want)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// rights returns the access bits that the minor version defines.
func (k *Compound) rights() uint32 {
	if k.Minor < 2 {
		return uint32(allRights)
	}
	return uint32(allRights) | wire.Access4XattrRead | wire.Access4XattrWrite | wire.Access4XattrList
}
