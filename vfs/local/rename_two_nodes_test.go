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
