package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// facts are what the values of attributes are made of. Those are filled in that the
// attributes asked for need.
type facts struct {
	k      *Compound
	object Object
	attr   *vfs.Attr
	// brought: attr is what the operation before found.
	brought bool
	info    vfs.Info
	usage   vfs.Usage
	// covered is mounted_on_fileid (RFC 8881 §5.8.2.23).
	covered uint64
	// failure is rdattr_error.
	failure Status
	// owner and group are the names of attr's, empty where numbers are sent.
	owner, group []byte
}

// getattr is GETATTR (RFC 8881 §18.7, RFC 7530 §16.7).
func getattr(k *Compound) Status {
	var args wire.Getattr4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	p := k.plan(&args.AttrRequest)
	if p.or != wire.NFS4OK {
		return p.or
	}
	f := k.newFacts(k.Current)
	f.attr, f.brought = &k.Attr, k.Brought() && p.needs&needBirth == 0
	if s := f.gather(p.needs); s != wire.NFS4OK {
		return s
	}
	f.put(k.W, &args.AttrRequest)
	return wire.NFS4OK
}

// served is supported_attrs.
func (f *facts) served() wire.Bitmap4 {
	set := supported[f.k.Minor]
	if !f.attr.HasBirth {
		set.Clear(wire.Fattr4TimeCreate)
	}
	return set
}

// measure is NFS4_OK where what was written from start on had room.
func (k *Compound) measure(start, room int) Status {
	if k.W.Overflow() || k.W.Len()-start > room {
		k.W.Truncate(start)
		return k.tooBig()
	}
	return wire.NFS4OK
}

// newFacts are those about an object, of which nothing is known yet.
func (k *Compound) newFacts(o Object) *facts {
	f := &k.facts
	*f = facts{k: k, owner: f.owner[:0], group: f.group[:0], object: o}
	return f
}

// gather finds out what the attributes of the current object need.
func (f *facts) gather(n need) Status {
	if n&needCovered != 0 {
		s := f.cover()
		if s != wire.NFS4OK {
			return s
		}
		if f.covered == 0 {
			n |= needAttr
		}
	}
	if n&needAttr != 0 {
		if s := f.look(n); s != wire.NFS4OK {
			return s
		}
	}
	return f.gatherShared(n)
}

// look gets the attributes of the current object, and what follows from them.
func (f *facts) look(n need) Status {
	k := f.k
	if !f.brought {
		k.want(n)
		err := k.FS().GetAttr(&k.Op, k.Current.Handle, f.attr)
		k.want(0)
		if err != nil {
			return k.Failed(err)
		}
	}
	if f.covered == 0 {
		f.covered = f.attr.FileID
	}
	return f.names(n)
}

// want has the file system tell what n asks for beyond the usual attributes, until the
// next call.
func (k *Compound) want(n need) {
	k.Op.Want = 0
	if n&needBirth != 0 {
		k.Op.Want = vfs.WantBirth
	}
}

// gatherShared finds out what the attributes of a whole file system need.
func (f *facts) gatherShared(n need) Status {
	k := f.k
	var err error
	if n&needInfo != 0 {
		f.info, err = k.FS().Info(&k.Op, k.Current.Handle)
	}
	if n&needUsage != 0 && err == nil {
		f.usage, err = k.FS().Usage(&k.Op, k.Current.Handle)
	}
	if err != nil {
		return k.Failed(err)
	}
	return wire.NFS4OK
}

// cover finds what the root of an export covers; covered stays 0 where that is nothing.
func (f *facts) cover() Status {
	k := f.k
	if k.Program.names == nil || k.Current.Handle != k.FS().Root() {
		return wire.NFS4OK
	}
	id, ok, err := k.Program.names.Covered(k.lookAround(), k.Current.Export)
	if err != nil {
		return k.Failed(err)
	}
	if ok {
		f.covered = id
	}
	return wire.NFS4OK
}

// put writes a fattr4 with those of a set of attributes that are supported and can be
// read. One that the object does not have is left out.
func (f *facts) put(w *xdr.Writer, asked *wire.Bitmap4) {
	p := f.k.plan(asked)
	if p.needs&needBirth != 0 && p.set.Has(wire.Fattr4TimeCreate) && !f.attr.HasBirth {
		has := p.set
		has.Clear(wire.Fattr4TimeCreate)
		p = f.k.plan(&has)
	}
	p.set.Encode(w)
	w.Uint32(0)
	start := w.Len()
	p.put(w, f)
	w.PatchUint32(start-4, uint32(w.Len()-start))
}
