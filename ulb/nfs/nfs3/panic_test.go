package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// crashing is a file system whose Read and ReadLink panic.
type crashing struct{ *memfs.FS }

func (crashing) Read(*vfs.Op, vfs.Handle, uint64, []byte, *vfs.Attr) (int, bool, error) {
	panic("Read")
}

func (crashing) ReadLink(*vfs.Op, vfs.Handle, []byte, *vfs.Attr) (int, error) { panic("ReadLink") }

// If the file system panics, the procedure's payload memory is released. The site checks the
// pool at the end of the test.
func TestAPanicKeepsNoPayloadMemory(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			fs := memfs.New(memfs.Options{RootMode: 0o777})
			s := newSiteOver(t, fs, m.of(crashing{fs}))
			s.mayPanic = true
			f := s.create(s.root, "f", 0o600)
			for range 3 {
				_, err := s.run(s.message(wire.ProcRead, &wire.Read3Args{FileHandle: f, Count: 1000})).Results()
				wantReply(t, err, rpc.AcceptSystemErr)
				_, err = s.run(s.message(wire.ProcReadlink, &wire.Readlink3Args{Symlink: f})).Results()
				wantReply(t, err, rpc.AcceptSystemErr)
			}
			want(t, "panics", s.rpc.Stats().Panics, 6)
			s.getattr(f)
		})
	}
}
