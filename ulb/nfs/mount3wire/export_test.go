package mount3wire

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// An export list can be written export by export, and the groups of each export group by group.
func TestExportsElementByElement(t *testing.T) {
	want := map[string][]string{"/srv/a": {"@lab", "10.0.0.0/8"}, "/srv/b": nil, "/srv/c": {"host"}}
	dirs := []string{"/srv/a", "/srv/b", "/srv/c"}
	w := xdr.NewWriter(make([]byte, 0, 512))
	for _, dir := range dirs {
		export := Export{Dir: []byte(dir)}
		PutExportHead(w, &export)
		for _, name := range want[dir] {
			PutGroup(w, &Group{Name: []byte(name)})
		}
		EndGroupList(w)
		export.EncodeTail(w)
	}
	EndExportList(w)

	d := xdr.NewDecoder(w.Bytes())
	var list ExportList
	list.Decode(d)
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	var export Export
	for _, dir := range dirs {
		if !list.Next(&export) || string(export.Dir) != dir {
			t.Fatalf("%q, want %q", export.Dir, dir)
		}
		var group Group
		for _, name := range want[dir] {
			if !export.Groups.Next(&group) || string(group.Name) != name {
				t.Fatalf("%s: %q, want %q", dir, group.Name, name)
			}
		}
		if export.Groups.Next(&group) {
			t.Fatalf("%s: %q too many", dir, group.Name)
		}
	}
	if list.Next(&export) {
		t.Fatalf("%q too many", export.Dir)
	}
}

// MNT's flavors are written after the first half of the result.
func TestMountWithFlavors(t *testing.T) {
	res := MountRes3{ResOK: MountRes3OK{FileHandle: []byte("root handle")}}
	flavors := []int32{390003, 1}
	w := xdr.NewWriter(make([]byte, 0, 128))
	res.EncodeHead(w)
	w.Uint32(uint32(len(flavors)))
	for _, f := range flavors {
		w.Int32(f)
	}
	res.EncodeTail(w)

	d := xdr.NewDecoder(w.Bytes())
	var got MountRes3
	got.Decode(d)
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	if n := got.ResOK.AuthFlavors.Len(); n != len(flavors) {
		t.Fatalf("%d flavors", n)
	}
	var flavor int32
	for _, want := range flavors {
		if !got.ResOK.AuthFlavors.Next(&flavor) || flavor != want {
			t.Errorf("flavor %d, want %d", flavor, want)
		}
	}
}

// A path of more than MNTPATHLEN bytes is refused.
func TestPathLimit(t *testing.T) {
	w := xdr.NewWriter(make([]byte, 0, 2048))
	w.Opaque(make([]byte, PathLen+1))
	var path DirPath
	d := xdr.NewDecoder(w.Bytes())
	path.Decode(d)
	if d.Err() != xdr.ErrTooLong {
		t.Error(d.Err())
	}
}
