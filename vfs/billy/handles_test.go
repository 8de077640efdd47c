package billy_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	billymem "github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// paths is a handler whose handles are paths, so that they are valid after a restart.
type paths struct{ nfs.Handler }

func (paths) ToHandle(_ gobilly.Filesystem, path []string) []byte {
	return []byte("/" + strings.Join(path, "/"))
}

func (paths) FromHandle(h []byte) (gobilly.Filesystem, []string, error) {
	if h[0] != '/' {
		return nil, nil, errors.New("no handle of ours")
	}
	return nil, strings.FieldsFunc(string(h), func(r rune) bool { return r == '/' }), nil
}

func TestHandlesOfTheHandlerOutliveARestart(t *testing.T) {
	d := newDisk(t)
	h := paths{helpers.NewNullAuthHandler(d)}
	f := open(t, h, billy.Options{})
	root, kept, moved, gone, replaced := f.Root(), f.create("kept"), f.create("moved"), f.create("gone"), f.create("replaced")
	long := f.create(strings.Repeat("n", 200)) // its path is too long for a handle
	f.write(kept, "kept", vfs.FileSync)
	f.write(moved, "moved", vfs.FileSync)
	f.rename("moved", "elsewhere")
	again := f.create("moved") // at the path in the handle of another file
	if again == moved {
		t.Fatal("a file has the handle that another had before a rename")
	}
	f.write(again, "again", vfs.FileSync)
	f.want(moved, "moved")
	f.want(again, "again")
	f.Remove(op, root, []byte("gone"))

	var cookie uint64
	var a vfs.Attr
	f.ReadDir(op, root, 0, false, &a, func(e *vfs.DirEntry) bool { cookie = e.Cookie; return cookie == 0 })
	if _, err := f.ReadDir(op, root, cookie, false, &a, func(*vfs.DirEntry) bool { return true }); err != nil {
		t.Errorf("ReadDir with a cookie: %v", err)
	}

	// Restart the FS. The program changes files before the restart.
	os.WriteFile(d.at("other"), []byte("other"), 0o644)
	if err := os.Rename(d.at("other"), d.at("replaced")); err != nil {
		t.Fatal(err)
	}
	f = open(t, h, billy.Options{})
	if f.Root() != root {
		t.Error("the root has another handle")
	}
	f.want(kept, "kept")
	f.stale(gone)
	f.stale(replaced)
	f.stale(moved) // although there is another file at the path in its handle
	f.stale(long)
	if _, err := f.ReadDir(op, root, cookie, false, &a, func(*vfs.DirEntry) bool { return true }); err != vfs.ErrBadCookie {
		t.Errorf("ReadDir with a cookie of an earlier process: %v", err)
	}
	if h, err := f.find("kept"); h != kept || err != nil {
		t.Errorf("Lookup: %v, %v; want %v", h, err, kept)
	}
}

// Without inode numbers a file is known by its path only. If another file is at the path after a rename or a
// removal, the handle of the former does not lead to it, before and after a restart. The root's handle stays.
func TestHandlesWithoutInodeNumbersAreOfOneLife(t *testing.T) {
	h := paths{helpers.NewNullAuthHandler(billymem.New())}
	f := open(t, h, billy.Options{})
	root := f.Root()
	renamed, removed, kept := f.create("renamed"), f.create("removed"), f.create("kept")
	f.write(renamed, "renamed", vfs.Unstable)
	f.write(kept, "kept", vfs.Unstable)
	f.rename("renamed", "elsewhere")
	if _, err := f.Remove(op, root, []byte("removed")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"renamed", "removed"} {
		f.write(f.create(name), "another", vfs.Unstable)
	}
	f.want(renamed, "renamed")
	f.want(kept, "kept")
	f.stale(removed)
	f = open(t, h, billy.Options{})
	if f.Root() != root {
		t.Error("the root has another handle")
	}
	for _, h := range []vfs.Handle{renamed, removed, kept} {
		f.stale(h)
		if _, err := f.find("renamed"); err != nil { // the new process knows the path
			t.Error(err)
		}
		f.stale(h)
	}
}

// GetAttr with a handle that no process gave out returns ESTALE.
func TestInventedHandles(t *testing.T) {
	d := newDisk(t)
	os.WriteFile(d.at("file"), []byte("x"), 0o644)
	f := open(t, paths{helpers.NewNullAuthHandler(d)}, billy.Options{})
	for _, path := range []string{"/file", "/../etc", "/", "file", "/none", "/file/below"} {
		h, _ := vfs.MakeHandle(append([]byte("h12345678"), path...))
		f.stale(h)
	}
	mute := open(t, helpers.NewNullAuthHandler(d), billy.Options{})
	h, _ := vfs.MakeHandle([]byte("h12345678/file"))
	mute.stale(h)
	mute.create("works")
}

// refusing is a handler that allows only a mount of /data.
type refusing struct{ nfs.Handler }

func (r refusing) Mount(ctx context.Context, conn net.Conn, req nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	switch {
	case string(req.Dirpath) != "/data":
		return nfs.MountStatusErrNoEnt, nil, nil
	case !conn.RemoteAddr().(*net.TCPAddr).IP.IsLoopback(), !conn.LocalAddr().(*net.TCPAddr).IP.IsLoopback(): // handlers read these addresses
		return nfs.MountStatusErrAcces, nil, nil
	}
	return r.Handler.Mount(ctx, conn, req)
}

func TestMountIsTheHandlers(t *testing.T) {
	h := refusing{handler(osfs.New(t.TempDir()))}
	if _, err := billy.New(h, billy.Options{}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("New of a path that is not served: %v", err)
	}
	if _, err := billy.New(h, billy.Options{Path: "/data"}); err != nil {
		t.Error(err)
	}
}

// GetAttr accepts only the root's handle. For any other bytes that a client may send it returns
// ESTALE or ErrBadHandle.
func FuzzHandle(f *testing.F) {
	bfs := billymem.New()
	fs, err := billy.New(paths{helpers.NewNullAuthHandler(bfs)}, billy.Options{})
	if err != nil {
		f.Fatal(err)
	}
	root := fs.Root()
	f.Add(root.Bytes())
	f.Add([]byte("h12345678/a/../b"))
	f.Add([]byte("o1234567812345678"))
	f.Add([]byte("h12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := vfs.MakeHandle(b)
		if !ok {
			return
		}
		var a vfs.Attr
		switch err := fs.GetAttr(op, h, &a); {
		case err == nil:
			if h != root {
				t.Errorf("%q is a handle", b)
			}
		case err != syscall.ESTALE && err != vfs.ErrBadHandle:
			t.Errorf("%q: %v", b, err)
		}
	})
}

// unanswering is a handler whose Mount returns only when its channel is closed.
type unanswering struct {
	nfs.Handler
	ctx  chan context.Context
	free chan struct{}
}

func (s unanswering) Mount(ctx context.Context, conn net.Conn, req nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	s.ctx <- ctx
	<-s.free
	return s.Handler.Mount(ctx, conn, req)
}

// A Mount that does not return holds up NewContext until its context ends.
func TestMountThatDoesNotReturn(t *testing.T) {
	s := unanswering{handler(osfs.New(t.TempDir())), make(chan context.Context, 1), make(chan struct{})}
	defer close(s.free)
	why := errors.New("the test has waited for long enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if passed := <-s.ctx; passed != ctx {
			t.Error("Mount has another context")
		}
		cancel(why)
	}()
	if _, err := billy.NewContext(ctx, s, billy.Options{Path: "/data"}); !errors.Is(err, why) || !strings.Contains(err.Error(), "/data") {
		t.Errorf("NewContext: %v", err)
	}
}
