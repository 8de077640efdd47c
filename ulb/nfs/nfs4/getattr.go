package nfs4

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// facts holds the values from which attributes are encoded. Only the facts that the requested
// attributes need are filled in.
type facts struct {
	k      *Compound
	object Object
	attr   *vfs.Attr
	// brought is true if the previous operation left the object's attributes in attr.
	brought bool
	info    vfs.Info
	usage   vfs.Usage
	// covered is mounted_on_fileid (RFC 8881 §5.8.2.23).
	covered uint64
	// failure is the value of rdattr_error.
	failure Status
	// owner and group are the names for attr's UID and GID. If a name is empty, the number is sent.
	owner, group []byte
}

// getattr is GETATTR (RFC 8881 §18.7, RFC 7530 §16.7).
func getattr(k *Compound, args *wire.Getattr4Args) Status {
	set, needs, s := k.answer(&args.AttrRequest)
	if s != wire.NFS4OK {
		return s
	}
	f := k.newFacts(k.Current)
	f.attr, f.brought = &k.Attr, k.Brought() && needs&needBirth == 0
	if s := f.gather(needs); s != wire.NFS4OK {
		return s
	}
	f.writeAttributes(k.W, set)
	return wire.NFS4OK
}

// newFacts resets k.facts for object o and returns it.
func (k *Compound) newFacts(o Object) *facts {
	f := &k.facts
	*f = facts{k: k, owner: f.owner[:0], group: f.group[:0], object: o}
	return f
}

// gather looks up the facts in the set n, for the current object and its file system.
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

// cover finds the file ID of the directory that the root of an export covers. f.covered stays
// 0 if the current object is no root or covers nothing.
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

// look gets the attributes of the current object and, if n contains them, its birth time and the
// names of its owner and group.
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

// want makes the next calls to the file system return the birth time too, if n contains
// needBirth. want(0) cancels this.
func (k *Compound) want(n need) {
	k.Op.Want = 0
	if n&needBirth != 0 {
		k.Op.Want = vfs.WantBirth
	}
}

// gatherShared looks up those facts in the set n that all objects of a file system share.
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

// writeAttributes writes a fattr4 with the attributes in set, which are readable. It omits the birth
// time if the object has none.
func (f *facts) writeAttributes(w *xdr.Writer, set wire.Bitmap4) {
	if set.Has(wire.Fattr4TimeCreate) && !f.attr.HasBirth {
		set.Clear(wire.Fattr4TimeCreate)
	}
	set.Encode(w)
	w.Uint32(0)
	start := w.Len()
	f.writeValues(w, &set)
	w.PatchUint32(start-4, uint32(w.Len()-start))
}

// served returns the value of supported_attrs for the object.
func (f *facts) served() wire.Bitmap4 {
	set := supported[f.k.Minor]
	if !f.attr.HasBirth {
		set.Clear(wire.Fattr4TimeCreate)
	}
	return set
}

// access is ACCESS (RFC 8881 §18.1, RFC 7530 §16.1). On a read-only export it grants no right
// that allows a change.
func access(k *Compound, args *wire.Access4Args) Status {
	if args.Access&^k.rights() != 0 {
		return wire.NFS4ErrInvalid
	}
	want := vfs.Access(args.Access)
	if want&ofXattrs != 0 {
		if _, keeps := keepsXattrs(k.FS()); !keeps {
			want &^= ofXattrs
		}
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

// Rights of ACCESS. NFSv4 numbers them as vfs does. LOOKUP and DELETE mean nothing for an object that is
// not a directory, and EXECUTE means nothing for a directory (RFC 8881 §18.1.3).
const (
	allRights       = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute
	ofXattrs        = vfs.AccessXattrRead | vfs.AccessXattrWrite | vfs.AccessXattrList
	changing        = vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessXattrWrite
	notOfFiles      = vfs.AccessLookup | vfs.AccessDelete
	notOfDirs       = vfs.AccessExecute
	_          uint = uint(vfs.AccessExecute) - wire.Access4Execute     // does not compile if vfs's number is lower
	_          uint = uint(vfs.AccessXattrList) - wire.Access4XattrList // the same check for the highest bit
)

// rights returns the access bits that the minor version defines.
func (k *Compound) rights() uint32 {
	if k.Minor < 2 {
		return uint32(allRights)
	}
	return uint32(allRights | ofXattrs)
}

// verify is VERIFY (RFC 8881 §18.31, RFC 7530 §16.35).
func verify(k *Compound, args *wire.Verify4Args) Status {
	same, s := k.compare(&args.Attributes)
	if s == wire.NFS4OK && !same {
		return wire.NFS4ErrNotSame
	}
	return s
}

// nverify is NVERIFY (RFC 8881 §18.15, RFC 7530 §16.15).
func nverify(k *Compound, args *wire.Nverify4Args) Status {
	same, s := k.compare(&args.Attributes)
	if s == wire.NFS4OK && same {
		return wire.NFS4ErrSame
	}
	return s
}

// compare reports whether the current object's attributes equal those that the client gives.
// It compares the encoded values.
func (k *Compound) compare(given *wire.FAttr4) (same bool, s Status) {
	f := k.newFacts(k.Current)
	f.attr = &k.Attr
	asked := given.Attrmask
	if unknown := asked.Without(&supported[k.Minor]); !unknown.IsEmpty() {
		return false, wire.NFS4ErrAttrNotSupp
	}
	if fixed := asked.Without(&readable); !fixed.IsEmpty() || asked.Has(wire.Fattr4RdattrError) {
		return false, wire.NFS4ErrInvalid
	}
	if s := checkValues(given); s != wire.NFS4OK {
		return false, s
	}
	_, needs, _ := k.answer(&asked)
	if s := f.gather(needs); s != wire.NFS4OK {
		return false, s
	}
	if asked.Has(wire.Fattr4TimeCreate) && !f.attr.HasBirth {
		return false, wire.NFS4ErrAttrNotSupp
	}
	// A value longer than the client's is different, so the writer needs no more room than
	// the client's value.
	w := xdr.NewWriter(make([]byte, 0, len(given.AttrVals)))
	f.writeValues(w, &asked)
	return !w.Overflow() && bytes.Equal(w.Bytes(), given.AttrVals), wire.NFS4OK
}

// checkValues checks that the values have the lengths that the mask implies, and that a mode
// has no undefined bits.
func checkValues(given *wire.FAttr4) Status {
	var d xdr.Decoder
	d.Reset(given.AttrVals, 0, nil)
	s := wire.NFS4OK
	for i := range bitmapWords {
		for m := given.Attrmask.Word(i); m != 0; m &= m - 1 {
			switch a := row(i, m); {
			case a.number == wire.Fattr4Mode:
				if d.Uint32()&^0o7777 != 0 { // RFC 8881 §6.2.4
					s = wire.NFS4ErrInvalid
				}
			case a.skip != nil:
				a.skip(&d)
			default:
				d.Skip(a.most)
			}
		}
	}
	if d.Finish() != nil {
		return wire.NFS4ErrBadXDR
	}
	return s
}

// The following functions skip values of variable length.

func skipOpaque(d *xdr.Decoder) { d.Opaque(xdr.NoLimit) }

func skipBitmap(d *xdr.Decoder) {
	var b wire.Bitmap4
	b.Decode(d)
}

func skipOpenArguments(d *xdr.Decoder) {
	var a wire.OpenArguments4
	a.Decode(d)
}

func skipLocations(d *xdr.Decoder) {
	var l wire.FsLocations4
	l.Decode(d)
}
