package local_test

import (
	"math"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// If a caller requests the ID 2^32-1 as the owner or group, the call fails and changes nothing. To
// the kernel this ID means "unchanged".
func TestNoFileHasTheHighestNumberAsOwner(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	before, err := w.attr(f)
	w.ok(err)
	for name, s := range map[string]vfs.SetAttr{
		"owner": {SetUID: true, UID: math.MaxUint32, SetMode: true, Mode: 0o600},
		"group": {SetGID: true, GID: math.MaxUint32, SetMode: true, Mode: 0o600},
	} {
		_, err := w.fs.SetAttr(w.op, f, &s, nil)
		w.want(err, syscall.EINVAL, "SetAttr of the "+name)
		after, err := w.attr(f)
		w.ok(err)
		if after != before {
			t.Errorf("SetAttr of the %s was refused and did something: %+v, was %+v", name, after, before)
		}
		_, _, err = w.fs.Create(w.op, w.fs.Root(), []byte("new"), &vfs.CreateHow{Attr: s})
		w.want(err, syscall.EINVAL, "Create with the "+name)
		_, _, err = w.fs.Mkdir(w.op, w.fs.Root(), []byte("new"), &s)
		w.want(err, syscall.EINVAL, "Mkdir with the "+name)
		_, _, err = w.fs.Symlink(w.op, w.fs.Root(), []byte("new"), []byte("to"), &s)
		w.want(err, syscall.EINVAL, "Symlink with the "+name)
		if _, err := os.Lstat(w.path("new")); err == nil {
			t.Errorf("a file was made with the %s", name)
		}
	}
}

// A caller with 2^32-1 as its user, its group or one of its groups gets no rights.
func TestCallerWithTheHighestNumberIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes user 0 to act as others")
	}
	w := newWorld(t, local.Config{})
	w.ok(os.Chmod(w.cfg.Root, 0o777))
	for _, c := range []vfs.Cred{{UID: math.MaxUint32, GID: 5}, {UID: 5, GID: math.MaxUint32}, {UID: 5, GID: 5, Groups: []uint32{math.MaxUint32}}} {
		op := vfs.Op{Cred: &c}
		var a vfs.Attr
		got, err := w.fs.Access(&op, w.fs.Root(), vfs.AccessRead|vfs.AccessLookup|vfs.AccessModify, &a)
		t.Logf("%+v: ACCESS %v, %v", c, got, err)
		if err == nil && got != 0 {
			t.Errorf("%+v: ACCESS %v", c, got)
		}
		if _, _, err = w.fs.Mkdir(&op, w.fs.Root(), []byte("d"), &vfs.SetAttr{}); err == nil {
			t.Errorf("%+v: Mkdir was made", c)
		} else {
			t.Log("Mkdir:", err)
		}
		if _, err = w.fs.Lookup(&op, w.fs.Root(), []byte("nothing"), &a); err == nil {
			t.Errorf("%+v: Lookup", c)
		} else {
			t.Log("Lookup:", err)
		}
	}
}
