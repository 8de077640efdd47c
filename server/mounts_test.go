package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Mounts below an export with crossmnt are served as separate file systems, by each NFS version,
// over both transports, and by MOUNT.
func TestMountsBelowAnExport(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	x := newCrossing(t)
	ctx := testContext(t)
	for _, path := range []string{"one", "one/two words", "bound", "disk"} {
		x.each(func(c *servertest.Client) { x.isCrossed3(c, path) })
		x.isCrossed4(path)
	}
	listed := make(map[string]client.Attributes4)
	for e, err := range x.four.Readdir(ctx, x.look4("/srv").Handle, identity) {
		x.ok(err, "READDIR")
		listed[e.Name] = e.Attributes
	}
	for _, name := range []string{"one", "bound", "disk"} {
		if got, want := listed[name], x.look4("/srv/"+name); got.FSID != want.FSID || got.FileID != want.FileID || got.MountedOn != want.MountedOn || string(got.Handle) != string(want.Handle) {
			t.Errorf("%s is listed as %+v, and is %+v", name, got, want)
		}
	}
	if _, there := listed["proc"]; !there {
		t.Error("proc is not listed")
	}
	// File systems with the kernel's own data, such as /proc, are not served, and one line says
	// so.
	for range 2 {
		x.each(func(c *servertest.Client) {
			if _, err := x.go3(c, "proc"); !is3(err, wire.NFS3ErrXDev) {
				t.Errorf("proc: %v", err)
			}
		})
		if _, err := x.four.Walk(ctx, nil, "/srv/proc"); client.StatusOf(err) != wire4.NFS4ErrAccess {
			t.Errorf("proc: %v", err)
		}
	}
	if n := strings.Count(x.Output(), "a mount below an export is not served"); n != 1 {
		t.Errorf("%d lines about proc", n)
	}
	says(t, x.Process, "a mount below an export is not served", `"/srv/proc"`, filepath.Join(x.base, "proc"), "proc")
	x.leave()
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}

// isCrossed3 checks that version 3 and MOUNT serve the mount at path as a separate file system.
func (x *crossing) isCrossed3(c *servertest.Client, path string) {
	x.t.Helper()
	t, ctx, names := x.t, testContext(x.t), strings.Split(path, "/")
	root, err := x.go3(c)
	x.ok(err, "/srv")
	h, err := x.go3(c, names...)
	x.ok(err, path)
	fsid, number := x.fileSystem(c, h)
	up, err := x.go3(c, names[:len(names)-1]...)
	x.ok(err, path)
	if other, _ := x.fileSystem(c, up); fsid == other {
		t.Errorf("%s has the fsid of what it is mounted on", path)
	}
	if want := statOf(t, filepath.Join(x.base, path)).Ino; number != want {
		t.Errorf("%s has the number %d, want %d", path, number, want)
	}
	if back, err := c.Lookup(ctx, h, ".."); err != nil || string(back) != string(up) {
		t.Errorf("%s/..: %x, %v; want %x", path, back, err, up)
	}
	if _, err := c.Create(ctx, h, "made by 3", 0o644); err != nil {
		t.Errorf("CREATE in %s: %v", path, err)
	}
	if _, err := os.Stat(filepath.Join(x.base, path, "made by 3")); err != nil {
		t.Error(err)
	}
	if mounted, err := c.Mount(ctx, "/srv/"+path); err != nil || string(mounted) != string(h) {
		t.Errorf("MOUNT of %s: %x, %v; want %x", path, mounted, err, h)
	}
	if err := c.Status(ctx, wire.ProcRename, &wire.Rename3Args{From: where(h, "made by 3"), To: where(root, "moved")}); !is3(err, wire.NFS3ErrXDev) {
		t.Errorf("RENAME out of %s: %v", path, err)
	}
	if err := c.Status(ctx, wire.ProcRmdir, &wire.Rmdir3Args{Object: where(up, names[len(names)-1])}); !is3(err, wire.NFS3ErrAccess) {
		t.Errorf("RMDIR of %s: %v", path, err)
	}
}

// isCrossed4 checks that version 4 serves the mount at path as a separate file system, and that
// its mounted-on file ID is that of the directory that the mount covers.
func (x *crossing) isCrossed4(path string) {
	x.t.Helper()
	a, up := x.look4("/srv/"+path), x.look4("/srv/"+filepath.Dir(path))
	number := statOf(x.t, filepath.Join(x.base, path)).Ino
	if a.FSID == up.FSID || a.FileID != number || a.MountedOn != x.covered[path] {
		x.t.Errorf("%s: %+v below %+v; its number is %d, and it covers %d", path, a, up, number, x.covered[path])
	}
	if back := x.above(a.Handle); string(back) != string(up.Handle) {
		x.t.Errorf("LOOKUPP of %s: %x, want %x", path, back, up.Handle)
	}
	if _, err := x.four.Mkdir(testContext(x.t), a.Handle, "made by 4", 0o755); err != nil {
		x.t.Errorf("CREATE in %s: %v", path, err)
	}
	if _, err := os.Stat(filepath.Join(x.base, path, "made by 4")); err != nil {
		x.t.Error(err)
	}
}

// A mount that is also exported by itself is served with the options of that export.
func TestMountThatIsExportedByItself(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	own, _ := mountPoint(t, base, "own")
	mount(t, "own", own, "tmpfs", 0)
	deep, _ := mountPoint(t, own, "deep")
	mount(t, "deep", deep, "tmpfs", 0)
	x := &crossing{t: t, base: base}
	x.reloading = startReloading(t, base+" /srv crossmnt", own+" /srv/own ro")
	x.connect()
	x.each(func(c *servertest.Client) {
		h, err := x.go3(c, "own")
		x.ok(err, "own")
		if _, err := c.Create(testContext(t), h, "file", 0o644); !is3(err, wire.NFS3ErrROFS) {
			t.Errorf("CREATE: %v", err)
		}
		if _, err := c.Lookup(testContext(t), h, "deep"); !is3(err, wire.NFS3ErrXDev) {
			t.Errorf("what is mounted below an export without crossmnt: %v", err)
		}
	})
	h, err := x.four.Walk(testContext(t), nil, "/srv/own")
	x.ok(err, "own")
	if _, err := x.four.Mkdir(testContext(t), h, "dir", 0o755); client.StatusOf(err) != wire4.NFS4ErrROFS {
		t.Errorf("CREATE: %v", err)
	}
	x.leave()
}

// The state directory is never served, wherever it is mounted.
func TestMountWithTheStateDirectory(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base, state := t.TempDir(), t.TempDir()
	at, _ := mountPoint(t, base, "state")
	mount(t, filepath.Dir(state), at, "", unix.MS_BIND)
	d := startOn(t, base, state, "crossmnt,insecure,no_root_squash")
	for transport, c := range d.dialBoth(t) {
		root, err := c.Mount(testContext(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lookup(testContext(t), root, "state"); !is3(err, wire.NFS3ErrXDev) {
			t.Errorf("%s: %v", transport, err)
		}
	}
	says(t, d.Process, "a mount below an export is not served", "the state directory "+state+" lies within it")
}

// The server does not serve a mount on a regular file, nor a mount with device files. A log line
// says so.
func TestMountsThatAreNoFiles(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	for _, name := range []string{"covered", "covers"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, filepath.Join(base, "covers"), filepath.Join(base, "covered"), "", unix.MS_BIND)
	names := []string{"covered"}
	if at, _ := mountPoint(t, base, "dev"); unix.Mount("dev", at, "devtmpfs", 0, "") == nil {
		// devtmpfs supports file handles, as tmpfs does.
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		names = append(names, "dev")
	}
	d := startOn(t, base, t.TempDir(), "crossmnt,insecure,no_root_squash")
	for transport, c := range d.dialBoth(t) {
		root, err := c.Mount(testContext(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := c.Lookup(testContext(t), root, name); !is3(err, wire.NFS3ErrXDev) {
				t.Errorf("%s, %s: %v", name, transport, err)
			}
		}
	}
	says(t, d.Process, "a mount below an export is not served", "it is mounted on a file")
}

// With more mounts than may be open at a time, a listing shows all of them, and a client can
// enter each.
func TestManyMounts(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	const all = 300
	base := t.TempDir()
	for i := range all {
		at, _ := mountPoint(t, base, fmt.Sprint("mount", i))
		mount(t, "many", at, "tmpfs", 0)
	}
	x := &crossing{t: t, base: base}
	x.reloading = startReloading(t, base+" /srv crossmnt")
	x.connect()
	ctx := testContext(t)
	handles := make(map[string]client.Handle)
	for e, err := range x.four.Readdir(ctx, x.look4("/srv").Handle, identity) {
		x.ok(err, "READDIR")
		a := e.Attributes
		if a.Error == wire4.NFS4ErrDelay { // the mount was not opened in time
			a = x.look4("/srv/" + e.Name)
		}
		if a.FSID != (wire4.FSID4{}) {
			handles[e.Name] = a.Handle
		}
	}
	if len(handles) != all {
		t.Errorf("%d of %d mounts are listed", len(handles), all)
	}
	for name, h := range handles {
		if _, err := x.four.Mkdir(ctx, h, "made", 0o755); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.PID()))
	x.ok(err, "its descriptors")
	if len(open) > 256*10 {
		t.Errorf("%d descriptors", len(open))
	}
	x.leave()
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}
