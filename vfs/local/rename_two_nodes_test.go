package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A rename within a directory that has two nodes, as it has if it is removed between the look-ups of its
// two handles, locks the directory once.
func TestRenameWithinADirectoryWithTwoNodes(t *testing.T) {
	root := t.TempDir()
	fs, err := New(Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	op := &daemonOp
	o, _, err := fs.Mkdir(op, fs.Root(), []byte("d"), &vfs.SetAttr{SetMode: true, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "d")
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := fs.node(op, o.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer first.put()
	s := fs.nodes.shard(&o.Handle)
	s.mu.Lock()
	delete(s.m, o.Handle)
	s.mu.Unlock()
	second, err := fs.node(op, o.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer second.put()
	if first == second || first.inode != second.inode {
		t.Fatal("the directory does not have two nodes of one inode")
	}
	var from, to vfs.Change
	r := renaming{f: first, t: second, fromName: []byte("a"), toName: []byte("b"), from: dirChange{d: first, ch: &from}, to: dirChange{d: second, ch: &to}}
	done := make(chan error, 1)
	go func() { done <- fs.rename(op, &r) }()
	if err := await.Receive(t, "the end of the rename", done); err != nil {
		t.Fatal(err)
	}
	r.moved.put()
	r.victim.put()
	if _, err := os.Stat(filepath.Join(dir, "b")); err != nil || from.After.Change <= from.Before.Change {
		t.Errorf("the rename: %v, %+v", err, from)
	}
}

// A rename from one directory to another is a change of both: each has another Change afterwards, and the reply
// says of each how it was before.
func TestRenameChangesBothDirectories(t *testing.T) {
	root := t.TempDir()
	fs, err := New(Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	op := &daemonOp
	var dirs [2]vfs.Handle
	var before [2]vfs.Attr
	for i, name := range []string{"one", "other"} {
		o, _, err := fs.Mkdir(op, fs.Root(), []byte(name), &vfs.SetAttr{SetMode: true, Mode: 0o755})
		if err != nil {
			t.Fatal(err)
		}
		dirs[i] = o.Handle
	}
	if err := os.WriteFile(filepath.Join(root, "one", "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, d := range dirs {
		if err := fs.GetAttr(op, d, &before[i]); err != nil {
			t.Fatal(err)
		}
	}
	from, to, err := fs.Rename(op, dirs[0], []byte("a"), dirs[1], []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	for i, ch := range []vfs.Change{from, to} {
		var after vfs.Attr
		if err := fs.GetAttr(op, dirs[i], &after); err != nil {
			t.Fatal(err)
		}
		if !ch.HasBefore || !ch.HasAfter || ch.Before.Change != before[i].Change || ch.After.Change != after.Change || after.Change <= before[i].Change {
			t.Errorf("directory %d: %d, then %d; the rename says %v %d, %v %d", i, before[i].Change, after.Change,
				ch.HasBefore, ch.Before.Change, ch.HasAfter, ch.After.Change)
		}
	}
}
