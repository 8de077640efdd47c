package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// If a file system reports a size that is larger than the content, as sysfs does, Read finds the end of
// the content and reports it.
func TestReadOfAFileShorterThanItsSize(t *testing.T) {
	const dir, name = "/sys/kernel/mm/transparent_hugepage", "enabled"
	want, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skip("no sysfs: ", err)
	}
	fs, err := local.New(local.Config{Root: dir, ReadOnly: true, StateDir: t.TempDir()})
	if err != nil {
		t.Skip("sysfs cannot be exported here: ", err)
	}
	t.Cleanup(func() { fs.Close() })
	self := local.Identity()
	op := &vfs.Op{Cred: &self}
	var a vfs.Attr
	o, err := fs.Lookup(op, fs.Root(), []byte(name), &a)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, eof, err := fs.Read(op, o.Handle, 0, buf, &a)
	if err != nil || string(buf[:n]) != string(want) || !eof {
		t.Errorf("Read: %q, end of file %v, %v; want %q", buf[:n], eof, err, want)
	}
}
