package exports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// descriptors is the number of descriptors that the file systems of a test may hold open.
const descriptors = 1024

// Exports of the same directory share one file system, even if their options or paths differ. It is
// closed with the last of these exports. A subdirectory, and another mount of the same directory,
// have file systems of their own.
func TestOneFileSystemForADirectory(t *testing.T) {
	// The FS sets the process's umask to 0. Restore it for later tests.
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
	as := "" // options that this process can serve
	if own := local.Identity(); own.UID != 0 {
		as = fmt.Sprintf("all_squash,anonuid=%d,anongid=%d", own.UID, own.GID)
	}
	configs := []config.Export{
		{Path: config.Dir{Path: tree}, Name: "/rw", Options: options(t, as)},
		{Path: config.Dir{Path: tree}, Name: "/ro", Options: options(t, "ro,async,"+as)},
		{Path: config.Dir{Path: link}, Name: "/link", Options: options(t, as)},
		{Path: config.Dir{Path: sub}, Name: "/sub", Options: options(t, as)},
	}
	if os.Geteuid() == 0 && unix.Mount(tree, mount, "", unix.MS_BIND, "") == nil {
		t.Cleanup(func() { unix.Unmount(mount, unix.MNT_DETACH) })
		configs = append(configs, config.Export{Path: config.Dir{Path: mount}, Name: "/mount", Options: options(t, as)})
	}
	all := NewFilesystems(t.TempDir(), zap.NewNop(), descriptors)
	offer, set := offerOf(all, zap.NewNop())
	if _, err := offer.Serve(t.Context(), configs); err != nil {
		t.Fatal(err)
	}
	exports := set.Table.All()
	if len(exports) != len(configs) {
		t.Fatalf("%v", offer.Faults())
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
		return fs["/rw"].GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, h, &a) == nil && all.Descriptors.Held() > 0
	}
	if _, err := offer.Serve(t.Context(), configs[2:3]); err != nil {
		t.Error(err)
	}
	await.Until(t, "the other file systems are closed", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.open) == 1
	})
	if !works() {
		t.Error("the file system was closed before its last export")
	}
	if err := closeSet(set); err != nil {
		t.Error(err)
	}
	if n := all.Descriptors.Held(); n != 0 || len(all.open) != 0 {
		t.Errorf("%d descriptors, %d file systems are left", n, len(all.open))
	}
}

// If a directory is exported again while its file system is being closed, show waits for the end of
// the close, and then opens a new file system. So a directory never has two file systems at a time.
func TestDirectoryThatIsShownAgainWhileItCloses(t *testing.T) {
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	dir, all := t.TempDir(), NewFilesystems(t.TempDir(), zap.NewNop(), descriptors)
	show := func() *local.FS {
		t.Helper()
		fs, err := showAt(all, dir)
		if err != nil {
			t.Fatal(err)
		}
		return fs
	}
	works := func(fs *local.FS) error {
		var a vfs.Attr
		return fs.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), &a)
	}
	fs := show()
	for range 3 {
		again, closing := make(chan *local.FS, 1), true
		all.Revoke = func(vfs.FileSystem) {
			go func() {
				next, err := showAt(all, dir)
				if err != nil {
					t.Error(err)
				}
				again <- next
			}()
			await.Until(t, "the directory is shown, or waited for", func() bool { return len(again) > 0 || waitsIn("(*Filesystems).show") })
			if len(again) > 0 {
				t.Error("a directory is shown while its file system is being closed")
			}
			closing = false
		}
		if err := all.LetGo(fs); err != nil || closing {
			t.Errorf("%v, closing %v", err, closing)
		}
		next := await.Receive(t, "the directory is shown again", again)
		if next == fs {
			t.Error("the file system that was closed is shown")
		}
		if err := works(next); err != nil {
			t.Errorf("the file system that is shown: %v", err)
		}
		if shared := show(); shared != next {
			t.Error("one directory has two file systems")
		}
		all.Revoke = nil
		if err := all.LetGo(next); err != nil {
			t.Error(err)
		}
		if err := works(next); err != nil {
			t.Errorf("with an export left: %v", err)
		}
		fs = next
	}
	if err := all.LetGo(fs); err != nil {
		t.Error(err)
	}
	if n := all.Descriptors.Held(); n != 0 || len(all.open) != 0 {
		t.Errorf("%d descriptors, %d file systems are left", n, len(all.open))
	}
}

// waitsIn reports whether a goroutine waits for a channel in a function.
func waitsIn(function string) bool {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if lines := strings.SplitN(g, "\n", 3); len(lines) > 1 && strings.Contains(lines[0], "[chan receive") && strings.Contains(lines[1], function) {
			return true
		}
	}
	return false
}

// offerOf returns an Offer as at the start of the server, and the Set that it puts exports into.
func offerOf(all *Filesystems, log *zap.Logger) (*Offer, *Set) {
	set := NewSet(zap.NewNop(), export.NewTable([export.KeySize]byte{1}), all)
	o := NewOffer(log, set, all, func([]Fault) {})
	o.Begin()
	return o, set
}

// closeSet closes the exports of a Set, as the end of the server does.
func closeSet(s *Set) error {
	var errs []error
	for _, c := range s.End() {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// showAt calls all.show for the directory at a path.
func showAt(all *Filesystems, dir string) (*local.FS, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return all.show(dir, fd)
}

// options parses the options of an export.
func options(t *testing.T, text string) (o config.ExportOptions) {
	t.Helper()
	if err := o.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return o
}
