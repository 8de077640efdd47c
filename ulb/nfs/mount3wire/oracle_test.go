package mount3wire

import (
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// types lists the arguments and results of all procedures. UMNT's argument is the same as
// MNT's.
var types = []struct {
	name   string
	fresh  func() xdrtest.Value
	oracle xdrtest.Foreign
}{
	{"MNT/args", func() xdrtest.Value { return new(DirPath) }, xdrtest.ForeignFunc(mount.ReadDirpath, mount.WriteDirpath)},
	{"MNT/res", func() xdrtest.Value { return new(MountRes3) }, xdrtest.ForeignUnion(mount.ReadMountres3)},
	{"DUMP/res", func() xdrtest.Value { return new(MountList) }, xdrtest.ForeignFunc(mount.ReadMountlist, mount.WriteMountlist)},
	{"EXPORT/res", func() xdrtest.Value { return new(ExportList) }, xdrtest.ForeignFunc(mount.ReadExports, mount.WriteExports)},
}

// go-xdr decodes what this package encodes to the same values, and the reverse, for the
// arguments and results of every procedure.
func TestOracle(t *testing.T) {
	for _, c := range types {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) { xdrtest.CheckForeign(t, c.fresh, c.oracle) }))
	}
}

// No type of MOUNT allocates when it is encoded or decoded, not even a list of lists.
func TestNoAllocation(t *testing.T) {
	for _, c := range types {
		xdrtest.CheckAllocations(t, c.fresh)
	}
}

// If bytes decode, the value is encoded to as many bytes.
func FuzzTypes(f *testing.F) {
	for i, c := range types {
		for seed := range 3 {
			w := xdr.NewWriter(make([]byte, 0, 4096))
			xdrtest.Example(c.fresh, seed).Encode(w)
			f.Add(uint8(i), xdrtest.Stream(w))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stream []byte) {
		v := types[int(which)%len(types)].fresh()
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, len(stream)))
		v.Encode(w)
		if w.Overflow() || w.Len() != len(stream) {
			t.Fatalf("%T: %x\nencoded as %x", v, stream, w.Bytes())
		}
	})
}
