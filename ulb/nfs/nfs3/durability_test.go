package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// asked is a file system that records whether each Mkdir may return before it is durable
// (Op.Async).
type asked struct {
	vfs.FileSystem
	async []bool
}

func (f *asked) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	f.async = append(f.async, op.Async)
	return f.FileSystem.Mkdir(op, dir, name, s)
}

// If several exports show one file system, the option of the call's export decides whether a
// change of names waits for stable storage.
func TestDurabilityIsTheExports(t *testing.T) {
	s := newSite(t)
	fs := &asked{FileSystem: s.fs}
	var all []*export.Export
	for name, async := range map[string]bool{"/sync": false, "/async": true} {
		all = append(all, &export.Export{Name: name, FS: fs, Options: export.Options{Async: async, Squash: export.NoSquash}})
	}
	if err := s.table.Replace(all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		for _, e := range s.table.All() {
			fs.async = nil
			s.mkdir(wire.FileHandle3{Data: s.table.Seal(nil, e, fs.Root())}, e.Name[1:]+name)
			if len(fs.async) == 0 {
				t.Fatal("MKDIR did not reach the file system")
			}
			for _, async := range fs.async {
				want(t, "async of "+e.Name, async, e.Async)
			}
		}
	}
}
