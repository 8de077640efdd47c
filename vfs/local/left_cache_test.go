package local

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node that has left the cache is not opened, because the file may have another node by now: its opens, its
// claims and its version would be counted apart.
func TestNodeThatHasLeftTheCacheIsNotOpened(t *testing.T) {
	fs, err := New(Config{Root: t.TempDir(), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	op := &daemonOp
	o, _, err := fs.Create(op, fs.Root(), []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	for _, opened := range []bool{false, true} {
		n, err := fs.node(op, o.Handle)
		if err != nil {
			t.Fatal(err)
		}
		if opened {
			if there, err := fs.nodes.open(n); !there || err != nil {
				t.Fatalf("a node in the cache: %v, %v", there, err)
			}
		}
		pinned := fs.holdings.pinnedNodes.Load()
		opens := n.opens
		s := fs.nodes.shard(&o.Handle)
		s.mu.Lock()
		delete(s.m, o.Handle)
		s.mu.Unlock()
		next, err := fs.node(op, o.Handle)
		if err != nil {
			t.Fatal(err)
		}
		if next == n {
			t.Fatal("the test is wrong: the file has its former node")
		}
		if there, err := fs.nodes.open(n); there || err != nil || n.opens != opens || fs.holdings.pinnedNodes.Load() != pinned {
			t.Errorf("a node that has left the cache, open %v: %v, %v; %d opens, %d nodes pinned, before %d and %d",
				opened, there, err, n.opens, fs.holdings.pinnedNodes.Load(), opens, pinned)
		}
		if opened {
			fs.nodes.close(n)
		}
		n.put()
		next.put()
	}
}
