package memfs_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// If a file's group may not execute it, its set-group-id bit means mandatory locking, and no
// change clears the bit. If the group may execute it, a change clears this bit and the set-user-id
// bit.
func TestSetGroupIDWithoutGroupExecutionStays(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	h := create(t, fs, "file")
	set := func(s vfs.SetAttr) {
		t.Helper()
		if _, err := fs.SetAttr(root, h, &s, nil); err != nil {
			t.Fatal(err)
		}
	}
	for what, change := range map[string]func(){
		"a write": func() {
			if _, _, err := write(fs, h, 0, "x", vfs.Unstable); err != nil {
				t.Fatal(err)
			}
		},
		"a truncation": func() { set(vfs.SetAttr{SetSize: true}) },
		"a chown":      func() { set(vfs.SetAttr{SetUID: true, UID: 5}) },
		"a chgrp":      func() { set(vfs.SetAttr{SetGID: true, GID: 5}) },
	} {
		for _, c := range []struct{ mode, left uint32 }{{0o6766, 0o2766}, {0o6776, 0o776}, {0o6677, 0o677}, {0o6667, 0o2667}} {
			set(vfs.SetAttr{SetMode: true, Mode: c.mode})
			change()
			var a vfs.Attr
			if err := fs.GetAttr(root, h, &a); err != nil {
				t.Fatal(err)
			}
			if a.Mode != c.left {
				t.Errorf("%s leaves %o of %o, want %o", what, a.Mode, c.mode, c.left)
			}
		}
	}
}
