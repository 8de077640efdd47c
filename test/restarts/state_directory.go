package restarts

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A stateDirectory is a FUSE file system over a directory. It counts the steps that change its
// files, and calls a function at one of them.
type stateDirectory struct {
	Mount string

	mu    sync.Mutex
	steps int
	at    int    // number of the step at which do is called; 0 means none
	after bool   // true if do is called after the step, not before it
	do    func() // called once, with mu held
}

// newStateDirectory mounts a stateDirectory until the test ends.
func newStateDirectory(t testing.TB) *stateDirectory {
	t.Helper()
	below, mount := t.TempDir(), t.TempDir()
	d := &stateDirectory{Mount: filepath.Join(mount, "state")}
	root, err := fs.NewLoopbackRoot(below)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(mount, &stepped{root.(*fs.LoopbackNode), d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, Name: "state", FsName: "state", Options: []string{"default_permissions"},
	}})
	if err != nil {
		t.Skipf("FUSE cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmounting the state directory: %v", err)
		}
	})
	return d
}

// strike makes the stateDirectory call do at the nth step from now on, before the step or after it.
// If n is 0, it does not call do.
func (d *stateDirectory) strike(n int, after bool, do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps, d.at, d.after, d.do = 0, n, after, do
}

// step counts a step (see the package's comment), and executes it by the function f. At step d.at
// it kills the daemon by the function d.do: after f if d.after is true, and otherwise instead of f.
func (d *stateDirectory) step(f func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps++
	if d.steps == d.at && !d.after {
		d.do()
		return syscall.EINTR
	}
	errno := f()
	if d.steps == d.at {
		d.do()
	}
	return errno
}

// stepped is a file or a directory of a stateDirectory.
type stepped struct {
	*fs.LoopbackNode
	of *stateDirectory
}

// WrapChild implements fs.NodeWrapChilder.
func (n *stepped) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &stepped{child.(*fs.LoopbackNode), n.of}
}

// Write implements fs.NodeWriter.
func (n *stepped) Write(ctx context.Context, f fs.FileHandle, b []byte, at int64) (count uint32, errno syscall.Errno) {
	errno = n.of.step(func() syscall.Errno {
		count, errno = f.(fs.FileWriter).Write(ctx, b, at)
		return errno
	})
	return count, errno
}

// Fsync implements fs.NodeFsyncer.
func (n *stepped) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	return n.of.step(func() syscall.Errno {
		if s, ok := f.(fs.FileFsyncer); ok { // the handle of a directory may not implement it
			return s.Fsync(ctx, flags)
		}
		return 0
	})
}

// Rename implements fs.NodeRenamer.
func (n *stepped) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	return n.of.step(func() syscall.Errno {
		return n.LoopbackNode.Rename(ctx, name, parent.(*stepped).LoopbackNode, to, flags)
	})
}

// Create implements fs.NodeCreater.
func (n *stepped) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, h fs.FileHandle, how uint32, errno syscall.Errno) {
	errno = n.of.step(func() syscall.Errno {
		inode, h, how, errno = n.LoopbackNode.Create(ctx, name, flags, mode, out)
		return errno
	})
	return inode, h, how, errno
}

// Unlink implements fs.NodeUnlinker.
func (n *stepped) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.of.step(func() syscall.Errno { return n.LoopbackNode.Unlink(ctx, name) })
}

// Setattr implements fs.NodeSetattrer.
func (n *stepped) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.of.step(func() syscall.Errno { return n.LoopbackNode.Setattr(ctx, f, in, out) })
}
