package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// slowFiles is a file system with open files. It calls a function before each operation on an
// open file.
type slowFiles struct {
	vfs.FileSystem
	before func()
}

type slowFile struct {
	vfs.File
	fs *slowFiles
}

func (s *slowFiles) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	f, err := s.FileSystem.(vfs.Opener).Open(op, h, access)
	if err != nil {
		return nil, err
	}
	return &slowFile{f, s}, nil
}

func (f *slowFile) Read(op *vfs.Op, offset uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	f.fs.before()
	return f.File.Read(op, offset, buf, a)
}

func (f *slowFile) Write(op *vfs.Op, offset uint64, data [][]byte, stable vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	f.fs.before()
	return f.File.Write(op, offset, data, stable)
}

// An OPEN_DOWNGRADE or a CLOSE that runs during another operation closes the file that the
// operation uses. If the stateid is no longer valid, the operation returns NFS4ERR_BAD_STATEID.
// Otherwise its status depends on the access that the stateid still has.
func TestFileThatIsClosedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name       string
		use, after func(o opened) nfs4test.Op
		want       wire.NFSStat4
	}{
		{"READ, and the file stays open to read",
			func(o opened) nfs4test.Op { return opRead(o.Stateid, 0, 4) },
			func(o opened) nfs4test.Op { return opDowngrade(o.Stateid, readable, 0) }, wire.NFS4ErrDelay},
		{"WRITE, and the file stays open to read",
			func(o opened) nfs4test.Op { return opWrite(o.Stateid, 0, "data") },
			func(o opened) nfs4test.Op { return opDowngrade(o.Stateid, readable, 0) }, wire.NFS4ErrOpenMode},
		{"READ, and the file is closed",
			func(o opened) nfs4test.Op { return opRead(o.Stateid, 0, 4) },
			func(o opened) nfs4test.Op { return opClose(o.Stateid, 0) }, wire.NFS4ErrBadStateID},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := &slowFiles{FileSystem: memfs.New(memfs.Options{RootMode: 0o777}), before: func() {}}
			f := newFiler(t, openSiteOver(t, fs), 1)
			x := &principals{filer: f}
			x.mode("file", 0o666)
			f.UID, f.GID = opener, opener
			f.open(openArgs("file", "me", both, 0))
			// The open of another user for reading does not belong to the opener.
			f.UID, f.GID = stranger, stranger
			o := f.open(openArgs("file", "me", readable, 0))
			f.UID, f.GID = opener, opener
			fs.before = func() {
				fs.before = func() {}
				f.want(wire.NFS4OK, putFH(o.fh), c.after(o))
			}
			use := c.use(o)
			f.want(c.want, putFH(o.fh), use)
		})
	}
}
