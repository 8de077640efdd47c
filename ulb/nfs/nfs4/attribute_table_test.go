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
		case a.get == nil && a.fill == nil && a.set == nil:
			t.Errorf("attribute %d can neither be got nor set", a.number)
		case a.get != nil && a.fill != nil:
			t.Errorf("attribute %d is got in two ways", a.number)
		case (a.skip != nil) != (a.get != nil):
			t.Errorf("attribute %d: a value without a fixed length is got and stepped over, one with it neither", a.number)
		case a.most == 0 || a.most%4 != 0:
			t.Errorf("attribute %d takes %d bytes", a.number, a.most)
		case a.since >= uint32(len(supported)):
			t.Errorf("attribute %d is of minor version %d", a.number, a.since)
		}
		if a.get != nil || a.fill != nil {
			most += a.most
		}
	}
	if len(attributeTable) > maxRows {
		t.Errorf("%d attributes", len(attributeTable))
	}
	// The binding reserves nfs.MaxAttributes bytes for a GETATTR.
	if most > nfs.MaxAttributes {
		t.Errorf("all attributes together take %d bytes", most)
	}
}

// A Compound keeps plans after use. It never uses the plan of another set of attributes or of
// another minor version.
func TestPlansAreOfTheirSet(t *testing.T) {
	k := Compound{scratch: scratch{plans: new(plans)}}
	var sets []wire.Bitmap4
	for _, a := range attributeTable {
		sets = append(sets, wire.Bits(a.number), wire.Bits(a.number, wire.Fattr4Size), wire.Bits(a.number, wire.Fattr4Owner, 95))
	}
	for range 2 {
		for _, asked := range sets {
			for k.Minor = range 3 {
				p := k.plan(&asked)
				told := asked.And(&supported[k.Minor])
				fixed := told.Without(&readable)
				if want := told.And(&readable); p.set != want || (p.or == wire.NFS4OK) != fixed.IsEmpty() {
					t.Fatalf("minor version %d, %v: %v, %v", k.Minor, asked, p.set, p.or)
				}
				var of wire.Bitmap4
				for _, r := range p.rows[:p.n] {
					of.Set(attributeTable[r.row].number)
				}
				if of != p.set {
					t.Fatalf("%v: the rows are those of %v", p.set, of)
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
