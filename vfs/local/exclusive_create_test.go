package local_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// RFC 1813 §3.3.8: an exclusive create that is sent again finds its own file,
// also after a restart, until the file is used; another's is refused. The same
// on a file system without unnamed files.
func TestExclusiveCreate(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		t.Run(fmt.Sprint("unnamed=", unnamed), func(t *testing.T) {
			w := newWorld(t, local.Config{Sync: true})
			w.fs.SetUnnamed(unnamed)
			create := func(c *vfs.Cred, name, verifier string) (vfs.Object, error) {
				how := &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte([]byte(verifier))}
				o, _, err := w.fs.Create(&vfs.Op{Cred: c}, w.fs.Root(), []byte(name), how)
				return o, err
			}
			self := w.op.Cred
			first, err := create(self, "f", "\xff\xfeabcdef")
			w.ok(err, "Create")
			again, err := create(self, "f", "\xff\xfeabcdef")
			w.ok(err, "Create again")
			w.again(w.cfg)
			w.fs.SetUnnamed(unnamed)
			restarted, err := create(self, "f", "\xff\xfeabcdef")
			w.ok(err, "Create after a restart")
			if again.Handle != first.Handle || restarted.Handle != first.Handle {
				t.Error("another file was found")
			}
			for _, other := range []string{"\xff\xfeabcdeg", "\xfd\xfeabcdef", "\xff\xfeabbdef"} {
				_, err = create(self, "f", other)
				w.want(err, syscall.EEXIST, "Create by another")
			}
			s := vfs.SetAttr{SetMode: true, Mode: 0o644, AtimeHow: vfs.ServerTime, MtimeHow: vfs.ServerTime}
			_, err = w.fs.SetAttr(w.op, first.Handle, &s, nil)
			w.ok(err, "SetAttr")
			_, err = create(self, "f", "\xff\xfeabcdef")
			w.want(err, syscall.EEXIST, "Create of what is in use")
			w.ok(os.Symlink("nowhere", w.path("link")))
			_, err = create(self, "link", "\xff\xfeabcdef")
			w.want(err, syscall.EEXIST, "Create of a symlink's name")
			names, err := os.ReadDir(w.cfg.Root)
			if err != nil || len(names) != 2 {
				t.Errorf("%v in the directory, %v", names, err)
			}

			others(t)
			w.ok(os.Chmod(w.cfg.Root, 0o755))
			_, err = create(id(1001, 1001), "g", "12345678")
			w.want(err, syscall.EACCES, "Create in another's directory")
			w.ok(os.Chmod(w.cfg.Root, 0o777|os.ModeSetgid))
			w.ok(os.Chown(w.cfg.Root, 0, 77))
			o, err := create(id(1001, 1001), "g", "12345678")
			if err != nil || o.Attr.UID != 1001 || o.Attr.GID != 77 || o.Attr.Nlink != 1 || o.Attr.Size != 0 {
				t.Errorf("%+v, %v", o.Attr, err)
			}
		})
	}
}
