package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// changesByHandle change a file by its handle alone. changed reports whether a local program sees the change.
var changesByHandle = []struct {
	name    string
	change  func(s *served, h vfs.Handle) error
	changed func(path string) bool
}{
	{"written", func(s *served, h vfs.Handle) error { return s.write(h, "new") },
		func(path string) bool { b, err := os.ReadFile(path); return err == nil && string(b[:3]) == "new" }},
	{"cut", func(s *served, h vfs.Handle) error { return setSize(s, h, 1) },
		func(path string) bool { is, err := os.Stat(path); return err == nil && is.Size() == 1 }},
	{"mode", func(s *served, h vfs.Handle) error {
		a := mode(0o600)
		_, err := s.fs.SetAttr(s.op, h, &a, nil)
		return err
	}, func(path string) bool { is, err := os.Stat(path); return err == nil && is.Mode() == 0o600 }},
	{"attribute", func(s *served, h vfs.Handle) error {
		_, err := s.fs.SetXattr(s.op, h, []byte("name"), []byte("value"), vfs.XattrEither)
		return err
	}, func(path string) bool {
		var value [8]byte
		n, err := unix.Getxattr(path, "user.name", value[:])
		return err == nil && string(value[:n]) == "value"
	}},
	{"linked", func(s *served, h vfs.Handle) error {
		_, err := s.fs.Link(s.op, h, s.fs.Root(), []byte("another name"), &vfs.Attr{})
		return err
	}, func(path string) bool {
		is, err := os.Stat(path)
		other, otherErr := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(path)), "another name"))
		return err == nil && otherErr == nil && os.SameFile(is, other)
	}},
}

func setSize(s *served, h vfs.Handle, size uint64) error {
	a := vfs.SetAttr{SetSize: true, Size: size}
	_, err := s.fs.SetAttr(s.op, h, &a, nil)
	return err
}

// What a client changes by a handle of before an unmount is there after the next one. An overlay whose
// kernel opens handles loses it, if nothing has looked the file up by its name.
func TestChangesByHandlesOutlastTheMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	for _, k := range groundKinds {
		if k.fleeting || k.forgets || k.kind != "overlayfs" && k.name != "ext4" {
			continue
		}
		for _, c := range changesByHandle {
			k.more = append(k.more, "w/"+c.name)
		}
		t.Run(k.name, func(t *testing.T) {
			g, own, held := heldByName(t, &k)
			now := g.serve()
			for _, c := range changesByHandle {
				h, err := now.open(held["/w/"+c.name].sealed)
				if err == nil {
					err = c.change(now, h)
				}
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			now.ok(now.fs.Close(), "Close")
			g.detach()
			g.mount(own)
			for _, c := range changesByHandle {
				if !c.changed(filepath.Join(g.dir, "w", c.name)) {
					_, err := os.ReadFile(filepath.Join(g.dir, "w", c.name))
					t.Errorf("%s: the change is lost; reading the file: %v", c.name, err)
				}
			}
		})
	}
}

// Without a state directory there is no index, so a handle is stale if the kernel knows no name of its file.
func TestHandlesOnOverlaysWithoutAStateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	for _, k := range groundKinds {
		if k.name != "overlayfs with nfs_export" {
			continue
		}
		g, _, held := heldByName(t, &k)
		self := local.Identity()
		w := &world{t, open(t, local.Config{Root: g.dir}), local.Config{}, &vfs.Op{Cred: &self}}
		h := held["/a"].plain
		w.want(w.write(h, "new"), syscall.ESTALE, "a write to a file of which no name is known")
		_, err := w.lookup(w.fs.Root(), "a")
		w.ok(err, "Lookup")
		w.ok(w.write(h, "new"), "a write to a file whose name was looked up")
		return
	}
	t.Error("no such kind")
}

// heldByName makes a ground of a kind, and returns the handles that an FS gave for its files before the file
// system was mounted again, by their paths.
func heldByName(t *testing.T, k *groundKind) (*ground, volume, map[string]heldHandle) {
	g := newGround(t, k)
	own, _ := k.volumes(g)
	g.mount(own)
	if !local.HandleKindOf(t, g.dir).Lasts {
		t.Fatal("handles of this kind do not outlast a mount")
	}
	s := g.serve()
	held := map[string]heldHandle{}
	for _, h := range s.hold(own.name, g.files...) {
		held[h.what] = h
	}
	s.ok(s.fs.Close(), "Close")
	g.detach()
	g.mount(own)
	return g, own, held
}
