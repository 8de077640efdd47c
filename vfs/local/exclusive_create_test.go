package local_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A repeated exclusive create finds the file that the first one made, also after a restart, until
// the client uses the file (RFC 1813 §3.3.8). With another verifier it fails. This also holds on a
// file system without unnamed files (O_TMPFILE).
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
			for _, other := range []string{"\xff\xfeabcdeg", "\xfd\xfeabcdef", "\xff\xfeabbdef", "\x7f\xfeabcdef", "\xff\xfeab\xe3def"} {
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

// The FS compares every bit of the verifier.
func TestExclusiveCreateComparesTheWholeVerifier(t *testing.T) {
	w := newWorld(t, local.Config{})
	create := func(name string, v [8]byte) error {
		_, _, err := w.fs.Create(w.op, w.fs.Root(), []byte(name), &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: v})
		return err
	}
	for _, fill := range []byte{0, 0xff} {
		v := [8]byte{fill, fill, fill, fill, fill, fill, fill, fill}
		name := fmt.Sprint("f", fill)
		w.ok(create(name, v), "Create")
		w.ok(create(name, v), "Create again")
		for bit := range 64 {
			other := v
			other[bit/8] ^= 1 << (bit % 8)
			w.want(create(name, other), syscall.EEXIST, fmt.Sprint("a verifier with another bit ", bit))
		}
	}
}

// On a file system that stores whole seconds, a repeated exclusive create compares the part of the
// verifier that is in the seconds.
func TestExclusiveCreateOnWholeSeconds(t *testing.T) {
	d := newDisk(t, "-I", "128")
	w := newWorld(t, local.Config{Root: d.dir})
	how := &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte([]byte("\xff\xfeab\xe3def"))}
	_, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("f"), how)
	w.ok(err, "Create")
	w.again(w.cfg)
	var st unix.Stat_t
	w.ok(unix.Stat(w.path("f"), &st))
	if st.Mtim.Nsec != 0 {
		t.Skip("this file system keeps fractions")
	}
	_, _, err = w.fs.Create(w.op, w.fs.Root(), []byte("f"), how)
	w.ok(err, "Create again")
	how.Verifier[1]++
	_, _, err = w.fs.Create(w.op, w.fs.Root(), []byte("f"), how)
	w.want(err, syscall.EEXIST, "Create by another")
}
