package nfs4_test

import (
	"slices"
	"strings"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// longNames is a file system whose listings have one more name, of 256 bytes, and leave out all attributes
// if bare is set.
type longNames struct {
	vfs.FileSystem
	bare bool
}

func (f longNames) Unwrap() vfs.FileSystem { return f.FileSystem }

func (f longNames) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(e *vfs.DirEntry) bool) (bool, error) {
	extra := vfs.DirEntry{Name: []byte(strings.Repeat("y", 256)), FileID: 99, Cookie: 1 << 40}
	if cookie == extra.Cookie {
		return true, nil
	}
	eof, err := f.FileSystem.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
		if f.bare {
			e.HasAttr = false
		}
		return emit(e)
	})
	return eof && emit(&extra), err
}

// READDIR lists names of 255 bytes, which clients can look up, and leaves out longer ones.
func TestReaddirOfLongNames(t *testing.T) {
	longest := strings.Repeat("x", 255)
	for _, bare := range []bool{false, true} {
		p := treeSiteOf(t, func(fs vfs.FileSystem) vfs.FileSystem {
			if _, _, err := fs.Create(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), []byte(longest), &vfs.CreateHow{}); err != nil {
				t.Fatal(err)
			}
			return longNames{fs, bare}
		}, "/data").Peer(0)
		all := namesOf(list(t, p, []string{"data"}, 1<<16, wire.Fattr4Type))
		if !slices.Contains(all, longest) {
			t.Errorf("the name of 255 bytes is not listed: %q", all)
		}
		if want := []string{"dir", "empty", "file", "link", longest}; !slices.Equal(all, want) {
			t.Errorf("listed %q, want %q", all, want)
		}
	}
}
