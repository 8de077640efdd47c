package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// create is CREATE: it creates every type but regular files (RFC 8881 §18.4, RFC 7530 §16.4).
func create(k *Compound) Status {
	var args wire.Create4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	switch args.Objtype.Type {
	case wire.NF4Dir, wire.NF4Lnk, wire.NF4Blk, wire.NF4Chr, wire.NF4Sock, wire.NF4Fifo:
	default:
		return wire.NFS4ErrBadType
	}
	if s := k.checkName(args.Objname); s != wire.NFS4OK {
		return s
	}
	if args.Objtype.Type == wire.NF4Lnk && len(args.Objtype.Linkdata.Data) == 0 {
		return wire.NFS4ErrInvalid
	}
	a := &k.assignment
	if s := k.assign(&args.Createattrs, a); s != wire.NFS4OK {
		return s
	}
	if a.set.SetSize { // none of these types has a size to set
		return wire.NFS4ErrInvalid
	}
	if s := k.leads(&k.Current, args.Objname, wire.NFS4ErrExist); s != wire.NFS4OK {
		return s
	}
	o, ch, err := k.make(&args.Objtype, args.Objname, &a.set)
	if err != nil {
		return k.Failed(err)
	}
	k.SetCurrent(Object{k.Current.Export, o.Handle})
	if o.HasAttr {
		k.Attr = o.Attr
		k.brought()
	}
	res := wire.Create4ResOK{Cinfo: changeInfo(&ch), Attrset: a.applied(&o)}
	res.Encode(k.W)
	return wire.NFS4OK
}

// make creates an object of type t in the current directory.
func (k *Compound) make(t *wire.Createtype4, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	dir := k.Current.Handle
	switch t.Type {
	case wire.NF4Dir:
		return k.FS().Mkdir(&k.Op, dir, name, s)
	case wire.NF4Lnk:
		return k.FS().Symlink(&k.Op, dir, name, t.Linkdata.Data, s)
	case wire.NF4Blk:
		return k.FS().Mknod(&k.Op, dir, name, vfs.BlockDevice, s, t.Devdata.Specdata1, t.Devdata.Specdata2)
	case wire.NF4Chr:
		return k.FS().Mknod(&k.Op, dir, name, vfs.CharDevice, s, t.Devdata.Specdata1, t.Devdata.Specdata2)
	case wire.NF4Sock:
		return k.FS().Mknod(&k.Op, dir, name, vfs.Socket, s, 0, 0)
	}
	return k.FS().Mknod(&k.Op, dir, name, vfs.FIFO, s, 0, 0)
}
