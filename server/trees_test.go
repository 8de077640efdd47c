package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Exports that show one directory share its file system, whatever their options
// and by whichever path; it is closed with the last of them. A directory within
// it, and another mount of it, have their own.
func TestOneFileSystemForADirectory(t *testing.T) {
	// A file system sets the process's umask to 0: not for the tests to come.
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	base := t.TempDir()
	tree, link, mount := filepath.Join(base, "tree"), filepath.Join(base, "link"), filepath.Join(base, "mount")
	sub := filepath.Join(tree, "sub")
	for _, dir := range []string{tree, sub, mount} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tree, link); err != nil {
		t.Fatal(err)
	}
	configs := []ExportConfig{
		{Path: Dir{tree}, Name: "/rw"},
		{Path: Dir{tree}, Name: "/ro", Options: options(t, "ro,async")},
		{Path: Dir{link}, Name: "/link"},
		{Path: Dir{sub}, Name: "/sub"},
	}
	if os.Geteuid() == 0 && unix.Mount(tree, mount, "", unix.MS_BIND, "") == nil {
		t.Cleanup(func() { unix.Unmount(mount, unix.MNT_DETACH) })
		configs = append(configs, ExportConfig{Path: Dir{mount}, Name: "/mount"})
	}
	if own := local.Identity(); own.UID != 0 {
		for i := range configs {
			o := &configs[i].Options
			o.given = append(o.given, options(t, fmt.Sprintf("all_squash,anonuid=%d,anongid=%d", own.UID, own.GID)).given...)
		}
	}
	all := newTrees(t.TempDir(), 0)
	exports, err := openExports(configs, all, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	fs := make(map[string]vfs.FileSystem)
	for _, e := range exports {
		fs[e.Name] = e.FS
		if want := e.Name == "/ro"; e.ReadOnly != want || e.Async != want {
			t.Errorf("%s: read-only %v, async %v", e.Name, e.ReadOnly, e.Async)
		}
	}
	if fs["/ro"] != fs["/rw"] || fs["/link"] != fs["/rw"] {
		t.Error("exports of one directory have several file systems")
	}
	if fs["/sub"] == fs["/rw"] || fs["/mount"] == fs["/rw"] {
		t.Error("exports of different directories share a file system")
	}
	works := func() bool {
		var a vfs.Attr
		h := fs["/rw"].Root()
		return fs["/rw"].GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, h, &a) == nil && all.descriptors.Held() > 0
	}
	keep := map[bool][]*export.Export{}
	for _, e := range exports {
		keep[e.Name == "/link"] = append(keep[e.Name == "/link"], e)
	}
	if err := closeExports(keep[false], all); err != nil {
		t.Error(err)
	}
	if !works() {
		t.Error("the file system was closed before its last export")
	}
	if err := closeExports(keep[true], all); err != nil {
		t.Error(err)
	}
	if n := all.descriptors.Held(); n != 0 || len(all.open) != 0 {
		t.Errorf("%d descriptors, %d file systems are left", n, len(all.open))
	}
}

// options are an export's, from their text.
func options(t *testing.T, text string) (o ExportOptions) {
	t.Helper()
	if err := o.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return o
}
