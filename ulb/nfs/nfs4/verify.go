package nfs4

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// verify is VERIFY (RFC 8881 §18.31, RFC 7530 §16.35).
func verify(k *Compound) Status {
	var args wire.Verify4Args
	args.Decode(k.Args)
	same, s := k.compare(&args.Attributes)
	if s == wire.NFS4OK && !same {
		return wire.NFS4ErrNotSame
	}
	return s
}

// nverify is NVERIFY (RFC 8881 §18.15, RFC 7530 §16.15).
func nverify(k *Compound) Status {
	var args wire.Nverify4Args
	args.Decode(k.Args)
	same, s := k.compare(&args.Attributes)
	if s == wire.NFS4OK && same {
		return wire.NFS4ErrSame
	}
	return s
}

// compare reports whether the current object's attributes equal those that the client gives.
// It compares the encoded values.
func (k *Compound) compare(given *wire.FAttr4) (same bool, s Status) {
	if !k.Decoded() {
		return false, wire.NFS4ErrBadXDR
	}
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
	if s := f.gather(k.plan(&asked).needs); s != wire.NFS4OK {
		return false, s
	}
	if asked.Has(wire.Fattr4TimeCreate) && !f.attr.HasBirth {
		return false, wire.NFS4ErrAttrNotSupp
	}
	// A value longer than the client's is different, so the writer needs no more room than
	// the client's value.
	w := xdr.NewWriter(make([]byte, 0, len(given.AttrVals)))
	k.plan(&asked).writeValues(w, f)
	return !w.Overflow() && bytes.Equal(w.Bytes(), given.AttrVals), wire.NFS4OK
}

// checkValues checks that the values have the lengths that the mask implies, and that a mode
// has no undefined bits.
func checkValues(given *wire.FAttr4) Status {
	var d xdr.Decoder
	d.Reset(given.AttrVals, 0, nil)
	s := wire.NFS4OK
	for i := range bitmapWords {
		for word := given.Attrmask.Word(i); word != 0; word &= word - 1 {
			switch a := attributes[bit(i, word)]; {
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
