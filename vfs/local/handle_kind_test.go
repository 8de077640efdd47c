package local_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A ground is a place where file systems of one kind can be mounted, one at a time.
type ground struct {
	t   *testing.T
	dir string // the mount point
	key [export.KeySize]byte
	// state is the state directory.
	state string
	files []string
	index bool   // handles are found by the index
	base  string // where folders are made; "": on the disk
}

// A volume is a file system that can be mounted on a ground, again and again.
type volume struct {
	name string
	// mount mounts it; unmounting is the same for all.
	mount func(dir string) error
}

// A groundKind makes volumes of one kind.
type groundKind struct {
	name string
	kind string // of handleKinds
	// format is the first byte of handles.
	format byte
	// volumes makes a volume with files, and others that a careless program takes for it: with the same
	// names and, as far as possible, the same inode numbers.
	volumes func(g *ground) (own volume, others []volume)
	index   bool // handles are found by the index
	// more are files beside groundFiles.
	more []string
	// fleeting is true if the file system is gone when it is unmounted.
	fleeting bool
	// forgets is true if a file that was copied up may have another handle and another inode number in
	// the next mount.
	forgets bool
	// reuses is true if a new file may by chance have the node number and the inode number of a removed one.
	// fuse-overlayfs numbers nodes by their addresses in memory.
	reuses bool
}

// groundFiles are the files in each volume. Each contains the volume's name and its own.
var groundFiles = []string{"a", "d/b", "d/e/c", "z"}

func (g *ground) fill(dir, volume string) error {
	for _, f := range g.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte(volume+" "+f), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (g *ground) mount(v volume) {
	g.t.Helper()
	var err error
	await.Within(await.Limit, func() bool { // what was unmounted lazily may be in use for a moment
		err = v.mount(g.dir)
		return !errors.Is(err, unix.EBUSY)
	})
	if err != nil {
		g.t.Skipf("%s cannot be mounted here: %v", v.name, err)
	}
}

// A heldHandle is a handle as a client has it, and what it led to.
type heldHandle struct {
	what   string
	sealed []byte
	plain  vfs.Handle
	ino    uint64 // 0: any
	text   string // content of a regular file
}

// A served is an FS in a table of exports.
type served struct {
	*world
	table *export.Table
}

func (g *ground) serve() *served {
	g.t.Helper()
	s := &served{newWorld(g.t, local.Config{Root: g.dir, StateDir: g.state, IndexHandles: g.index}), export.NewTable(g.key)}
	s.ok(s.table.Replace([]*export.Export{{Name: "/e", FS: s.fs}}), "Replace")
	return s
}

// seal returns the handle that a client gets.
func (s *served) seal(h vfs.Handle) []byte { return s.table.Seal(nil, s.table.All()[0], h) }

// open returns what a client's handle leads to, or ESTALE.
func (s *served) open(sealed []byte) (vfs.Handle, error) {
	o, err := s.table.Find(sealed)
	if errors.Is(err, export.ErrGone) {
		return vfs.Handle{}, syscall.ESTALE
	}
	s.ok(err, "Find")
	return o.Handle, nil
}

// hold returns handles of the root, and of all files and directories on the way to them.
func (s *served) hold(volume string, files ...string) (all []heldHandle) {
	s.Helper()
	seen := make(map[string]bool)
	for _, f := range append([]string{"."}, files...) {
		h, at := s.fs.Root(), ""
		for name := range strings.SplitSeq(f, "/") {
			if name != "." {
				next, err := s.lookup(h, name)
				s.ok(err, "Lookup ", f)
				h, at = next, filepath.Join(at, name)
			}
			a, err := s.attr(h)
			s.ok(err, "GetAttr ", at)
			if seen[at] {
				continue
			}
			seen[at] = true
			held := heldHandle{what: "/" + at, sealed: s.seal(h), plain: h, ino: a.FileID}
			if a.Type == vfs.Regular {
				held.text = volume + " " + at
			}
			all = append(all, held)
		}
	}
	return all
}

// A fate is what may happen to a handle.
type fate uint8

const (
	valid fate = iota
	stale
	validOrStale
)

// find checks what handles lead to now. Whatever may happen, no handle leads to another object.
func (s *served) find(all []heldHandle, want fate, when string) {
	s.Helper()
	for _, held := range all {
		h, err := s.open(held.sealed)
		var a vfs.Attr
		if err == nil {
			a, err = s.attr(h)
		}
		got := ""
		if err == nil && held.text != "" {
			var buf [256]byte
			var n int
			n, _, err = s.fs.Read(s.op, h, 0, buf[:], &a)
			got = string(buf[:n])
		}
		switch {
		case errors.Is(err, syscall.ESTALE) && want == valid, err == nil && want == stale:
			s.Errorf("%s: the handle of %s: %v (%q)", when, held.what, err, got)
		case errors.Is(err, syscall.ESTALE):
		case err != nil:
			s.Errorf("%s: the handle of %s: %v", when, held.what, err)
		case got != held.text, a.FileID != held.ino && held.ino != 0:
			s.Errorf("%s: the handle of %s leads to another file: %q, inode %d instead of %d", when, held.what, got, a.FileID, held.ino)
		}
	}
}

// On each kind of file system, a handle leads to its own file or is stale, after all that happens to file
// systems: the daemon is started again, the file system is unmounted and mounted again, and another one, or
// a copy with another identity, is mounted in its place, also while the daemon still has the former open.
func TestHandlesOfEachKindOfFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	for _, k := range groundKinds {
		t.Run(k.name, func(t *testing.T) {
			g := newGround(t, &k)
			own, others := k.volumes(g)
			g.mount(own)
			kind := local.HandleKindOf(t, g.dir)
			if kind.Name != k.kind {
				t.Fatalf("the kind is %q, want %q", kind.Name, k.kind)
			}
			first := g.serve()
			held := first.hold(own.name, g.files...)
			if h, err := first.lookup(first.fs.Root(), "a"); err != nil || h.Bytes()[0] != k.format {
				t.Errorf("a handle is %v, %v; want format %d", h, err, k.format)
			}
			g.changes(own)
			first.find(held, valid, "written to")
			first.fs.EvictAll()
			first.find(held, valid, "the cache is emptied")
			again := g.serve()
			again.find(held, valid, "started again")
			if !k.reuses {
				again.replaceFiles(g)
			}
			again.ok(again.fs.Close(), "Close")

			for _, v := range others {
				when := "in its place is " + v.name
				g.detach()
				first.find(held, valid, when+", and the one before is still open")
				g.mount(v)
				now := g.serve()
				now.find(held, stale, when)
				theirs := now.hold(v.name, g.files...)
				now.find(held, stale, when+", whose files were looked up")
				now.find(theirs, valid, when+", its own")
				first.find(theirs, stale, when+", its handles in the one before")
				first.find(held, valid, when+", and the one before is still open")
				now.ok(now.fs.Close(), "Close")
			}
			first.ok(first.fs.Close(), "Close")
			want := stale
			switch {
			case k.forgets:
				want = validOrStale
				for i := range held {
					held[i].ino = 0
				}
			case kind.Lasts && !k.fleeting:
				want = valid
			}
			for range 2 {
				g.detach()
				g.mount(own)
				now := g.serve()
				now.find(held, want, "mounted again")
				now.hold(own.name, g.files...)
				now.find(held, want, "mounted again, and looked up")
				now.ok(now.fs.Close(), "Close")
			}
		})
	}
}

func newGround(t *testing.T, k *groundKind) *ground {
	g := &ground{t: t, dir: t.TempDir(), state: t.TempDir(), files: append(k.more, groundFiles...), index: k.index}
	_, _ = rand.Read(g.key[:])
	t.Cleanup(func() {
		for unix.Unmount(g.dir, unix.MNT_DETACH) == nil {
		}
	})
	return g
}

// changes writes to each file what it contains, and changes each directory. On an overlay they are copied
// up.
func (g *ground) changes(v volume) {
	g.t.Helper()
	if err := g.fill(g.dir, v.name); err != nil {
		g.t.Fatal(err)
	}
	for _, f := range g.files {
		for dir := filepath.Dir(f); dir != "."; dir = filepath.Dir(dir) {
			if err := os.Chmod(filepath.Join(g.dir, dir), 0o711); err != nil {
				g.t.Fatal(err)
			}
		}
	}
}

// replaceFiles makes files, removes them and makes others, which get the same inode numbers on many file
// systems. The handles of the former are stale.
func (s *served) replaceFiles(g *ground) {
	s.Helper()
	make := func(turn string) (names []string) {
		for i := range 32 {
			name := fmt.Sprint("reused", i)
			s.ok(os.WriteFile(filepath.Join(g.dir, name), []byte(turn+" "+name), 0o644))
			names = append(names, name)
		}
		return names
	}
	names := make("before")
	held := s.hold("before", names...)[1:]
	s.fs.EvictAll() // so that no descriptor keeps the inodes
	for _, name := range names {
		s.ok(os.Remove(filepath.Join(g.dir, name)))
	}
	make("after")
	s.find(held, stale, "removed")
	s.hold("after", names...)
	s.find(held, stale, "removed and replaced")
	for _, name := range names {
		s.ok(os.Remove(filepath.Join(g.dir, name)))
	}
}

// detach unmounts what is mounted, even if it is in use.
func (g *ground) detach() {
	g.t.Helper()
	if err := unix.Unmount(g.dir, unix.MNT_DETACH); err != nil {
		g.t.Fatal(err)
	}
}

// run runs a program, and skips the test if it fails or is not there.
func (g *ground) run(args ...string) {
	g.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		g.t.Skipf("%v: %v: %s", args, err, out)
	}
}

// folder makes a directory.
func (g *ground) folder(name string) string {
	g.t.Helper()
	base, err := g.base, error(nil)
	if base == "" {
		base = diskFolder(g.t)
	} else if base, err = os.MkdirTemp(base, ""); err != nil {
		g.t.Fatal(err)
	}
	dir := filepath.Join(base, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	return dir
}
