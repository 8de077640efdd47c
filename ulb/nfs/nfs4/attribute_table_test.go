package nfs4

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func TestAttributeTable(t *testing.T) {
	last, most := -1, wire.Bitmap4MaxSize+4
	for _, a := range attributeTable {
		if int(a.number) <= last {
			t.Errorf("attribute %d comes after %d", a.number, last)
		}
		last = int(a.number)
		switch {
		case a.get == nil && a.set == nil:
			t.Errorf("attribute %d can neither be got nor set", a.number)
		case a.skip != nil && a.get == nil:
			t.Errorf("attribute %d: a value is stepped over that cannot be got", a.number)
		case a.most == 0 || a.most%4 != 0:
			t.Errorf("attribute %d takes %d bytes", a.number, a.most)
		case a.since >= uint32(len(supported)):
			t.Errorf("attribute %d is of minor version %d", a.number, a.since)
		}
		if a.get != nil {
			most += a.most
		}
	}
	// The binding reserves nfs.MaxAttributes bytes for a GETATTR.
	if most > nfs.MaxAttributes {
		t.Errorf("all attributes together take %d bytes", most)
	}
}

// A client gets those of the attributes that it asks for that its minor version has.
func TestAnswerIsOfTheMinorVersion(t *testing.T) {
	var k Compound
	for _, a := range attributeTable {
		for _, asked := range []wire.Bitmap4{wire.Bits(a.number), wire.Bits(a.number, wire.Fattr4Size), wire.Bits(a.number, wire.Fattr4Owner, 95)} {
			for k.Minor = range 3 {
				set, _, s := k.answer(&asked)
				told := asked.And(&supported[k.Minor])
				fixed := told.Without(&readable)
				if set != told || (s == wire.NFS4OK) != fixed.IsEmpty() {
					t.Fatalf("minor version %d, %v: %v, %v", k.Minor, asked, set, s)
				}
				for n := range uint32(len(attributes)) {
					if a := attributes[n]; set.Has(n) && (a.number != n || a.since > k.Minor) {
						t.Fatalf("%v: attribute %d is %d of minor version %d", set, n, a.number, a.since)
					}
				}
			}
		}
	}
}

func TestPathIsAsLongAsItIsSaid(t *testing.T) {
	for _, path := range []string{"/", "/a", "/ab/c", "/four/fives", "/" + strings.Repeat("a/", 200) + "b"} {
		w := xdr.NewWriter(make([]byte, 0, 4096))
		putPath(w, path)
		var p wire.Pathname4
		d := xdr.NewDecoder(w.Bytes())
		p.Decode(d)
		again := ""
		var name wire.UTF8String
		for p.Next(&name) {
			again += "/" + string(name)
		}
		if d.Finish() != nil || again != strings.TrimSuffix(path, "/") || w.Len() != sizeOfPath(path) {
			t.Errorf("%q: %q in %d bytes, not %d", path, again, w.Len(), sizeOfPath(path))
		}
	}
}
