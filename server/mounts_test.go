package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// ownMounts names the process that has a mount namespace of its own.
const ownMounts = "SERVERTEST_OWN_MOUNTS"

// inOwnMounts runs the test that calls it again, in a process with a mount namespace of
// its own, and returns true there. What that mounts is gone when it ends.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	if os.Getenv(ownMounts) == t.Name() {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), ownMounts+"="+t.Name())
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// mountPoint makes a directory below another one, and says which number it has.
func mountPoint(t *testing.T, dir ...string) (at string, number uint64) {
	t.Helper()
	at = filepath.Join(dir...)
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	return at, statOf(t, at).Ino
}

func statOf(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func mount(t *testing.T, what, at, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(what, at, kind, flags, ""); err != nil {
		t.Fatalf("mounting %s: %v", at, err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
}

// mountDisk mounts a new ext4 file system; false where that cannot be done here.
func mountDisk(t *testing.T, at string) bool {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(32 << 20)
		f.Close()
	}
	if err == nil {
		err = exec.Command("mkfs.ext4", "-q", image).Run()
	}
	if err == nil {
		err = exec.Command("mount", "-o", "loop", image, at).Run()
	}
	if err != nil {
		t.Logf("no ext4 here: %v", err)
		return false
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return true
}

// crossing is a daemon whose export /srv has things mounted below it.
type crossing struct {
	*reloading
	t       *testing.T
	base    string
	three   map[string]*servertest.Client
	four    client.NFS4
	covered map[string]uint64 // by name below base
}

func newCrossing(t *testing.T) *crossing {
	x := &crossing{t: t, base: t.TempDir(), covered: make(map[string]uint64)}
	point := func(names ...string) string {
		at, number := mountPoint(t, append([]string{x.base}, names...)...)
		x.covered[filepath.Join(names...)] = number
		return at
	}
	mount(t, "one", point("one"), "tmpfs", 0)
	mount(t, "two", point("one", "two words"), "tmpfs", 0)
	mount(t, "proc", point("proc"), "proc", 0)
	point("plain", "sub")
	mount(t, filepath.Join(x.base, "plain"), point("bound"), "", unix.MS_BIND)
	disk := point("disk")
	if !mountDisk(t, disk) {
		mount(t, "disk", disk, "tmpfs", 0)
	}
	if err := os.WriteFile(filepath.Join(disk, "file"), []byte("on the disk"), 0o644); err != nil {
		t.Fatal(err)
	}
	x.reloading = startReloading(t, x.base+" /srv crossmnt")
	x.connect()
	return x
}

// connect connects to the daemon. A session of version 4 has to be ended before it.
func (x *crossing) connect() {
	x.t.Helper()
	x.three = x.dialBoth(x.t)
	s, err := client.DialSession(testContext(x.t), client.SessionConfig{
		Target: client.Target{Transport: client.RDMA, Host: x.rdma.Addr().String(), Port: int(x.rdma.Port()), Cred: client.Self()},
	})
	x.ok(err, "a session")
	x.four = s.NFS4()
	x.four.Patient = true
}

// leave ends the session.
func (x *crossing) leave() {
	x.t.Helper()
	x.ok(x.four.Session.Close(), "the end of the session")
}

// each calls f for each client of version 3.
func (x *crossing) each(f func(c *servertest.Client)) {
	for _, transport := range []string{"tcp", "rdma"} {
		f(x.three[transport])
	}
}

func (x *crossing) ok(err error, what string) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%s: %v", what, err)
	}
}

// go3 walks by version 3.
func (x *crossing) go3(c *servertest.Client, names ...string) (h servertest.Handle, err error) {
	ctx := testContext(x.t)
	if h, err = c.Mount(ctx, "/srv"); err != nil {
		return h, err
	}
	for _, name := range names {
		if h, err = c.Lookup(ctx, h, name); err != nil {
			return h, err
		}
	}
	return h, nil
}

// fileSystem is what version 3 tells of an object.
func (x *crossing) fileSystem(c *servertest.Client, h servertest.Handle) (fsid, fileID uint64) {
	x.t.Helper()
	a, err := c.GetAttr(testContext(x.t), h)
	x.ok(err, "GETATTR")
	return a.FSID, a.FileID
}

var identity = wire4.Bits(wire4.Fattr4FSID, wire4.Fattr4FileID, wire4.Fattr4MountedOnFileID, wire4.Fattr4Filehandle, wire4.Fattr4RdattrError)

func (x *crossing) look4(path string) client.Attributes4 {
	x.t.Helper()
	ctx := testContext(x.t)
	h, err := x.four.Walk(ctx, nil, path)
	x.ok(err, path)
	a, err := x.four.Getattr(ctx, h, identity)
	x.ok(err, path)
	return a
}

// above is LOOKUPP.
func (x *crossing) above(h client.Handle) (up client.Handle) {
	x.t.Helper()
	var res wire4.GetFH4Res
	err := x.four.Session.Do(testContext(x.t), &client.Compound{Ops: []client.Op{
		{Number: wire4.OpPutFH, Args: &wire4.PutFH4Args{Object: wire4.NFSFH4(h)}}, {Number: wire4.OpLookupp}, {Number: wire4.OpGetFH, Res: &res},
	}}, func() error {
		up = slices.Clone(client.Handle(res.ResOK.Object))
		return nil
	})
	x.ok(err, "LOOKUPP")
	return up
}

func is3(err error, status wire.NFSStat3) bool {
	s, ok := errors.AsType[*servertest.StatusError](err)
	return ok && s.Status == status
}

// What is mounted below an export with crossmnt is served as file systems of its own, by
// each version and over both transports, and by MOUNT.
func TestMountsBelowAnExport(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	x := newCrossing(t)
	ctx := testContext(t)
	below := map[string][]string{
		"one": {"one"}, "one/two words": {"one", "two words"}, "bound": {"bound"}, "disk": {"disk"},
	}
	for path, names := range below {
		on := statOf(t, filepath.Join(x.base, path))
		x.each(func(c *servertest.Client) {
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
			if number != on.Ino {
				t.Errorf("%s has the number %d, want %d", path, number, on.Ino)
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
		})
		a := x.look4("/srv/" + path)
		up := x.look4("/srv/" + filepath.Dir(path))
		if a.FSID == up.FSID || a.FileID != on.Ino || a.MountedOn != x.covered[path] {
			t.Errorf("%s: %+v below %+v; its number is %d, and it covers %d", path, a, up, on.Ino, x.covered[path])
		}
		if back := x.above(a.Handle); string(back) != string(up.Handle) {
			t.Errorf("LOOKUPP of %s: %x, want %x", path, back, up.Handle)
		}
		if _, err := x.four.Mkdir(ctx, a.Handle, "made by 4", 0o755); err != nil {
			t.Errorf("CREATE in %s: %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(x.base, path, "made by 4")); err != nil {
			t.Error(err)
		}
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
	// What shows the machine is not served, and that is said once.
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
	endsInTime(t, x.Process, syscall.SIGTERM, inOrder)
}

// Mounts come and go, and a client that comes to one sees that at once. Handles outlive the
// daemon, and hold nothing: what nobody uses can be unmounted, and what is open cannot.
func TestMountsComeAndGo(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	x := newCrossing(t)
	ctx := testContext(t)
	file, err := x.go3(x.three["tcp"], "disk", "file")
	x.ok(err, "disk/file")
	reads := func(c *servertest.Client) {
		t.Helper()
		p := make([]byte, 11)
		if n, err := c.Read(ctx, file, 0, p); err != nil || string(p[:n]) != "on the disk" {
			t.Errorf("READ: %q, %v", p[:n], err)
		}
	}
	reads(x.three["rdma"])

	later, _ := mountPoint(t, x.base, "dir", "later")
	mount(t, "later", later, "tmpfs", 0)
	h, err := x.go3(x.three["tcp"], "dir", "later")
	x.ok(err, "what was mounted just now")
	x.ok(os.Rename(filepath.Join(x.base, "dir"), filepath.Join(x.base, "renamed")), "rename")
	again, err := x.go3(x.three["tcp"], "renamed", "later")
	x.ok(err, "what is mounted in a directory that was renamed")
	if string(again) == string(h) {
		t.Error("a mount with another name has the same handle")
	}
	later = filepath.Join(x.base, "renamed", "later")
	x.ok(unix.Unmount(later, unix.MNT_DETACH), "umount -l")
	await(t, ctx, "its handles are stale", func() bool {
		_, err := x.three["rdma"].GetAttr(ctx, again)
		return stale(err)
	})
	number := statOf(t, later).Ino
	h, err = x.go3(x.three["tcp"], "renamed", "later")
	x.ok(err, "what was covered")
	if _, is := x.fileSystem(x.three["tcp"], h); is != number {
		t.Errorf("what was covered is %d, want %d", is, number)
	}

	x.leave()
	x.Process.Kill()
	x.Process.Wait()
	x.head += "[nfs]\nlease_time = \"5s\"\n" // and so long is the time of grace
	x.write(x.base + " /srv crossmnt")
	x.Process = nfsrdmad(t, "serve", "--config", x.config)
	x.AwaitLine("serving")
	x.connect()
	x.each(reads)
	two := x.look4("/srv/one/two words")
	opened, err := x.four.Open(ctx, client.Open4{
		Dir: two.Handle, Name: "open", Owner: []byte("owner"), Access: wire4.Open4ShareAccessBoth,
		Create: &wire4.Createhow4{Mode: wire4.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	x.ok(err, "OPEN")

	// What has other options has them for what is mounted as well, and what is open stays.
	x.reload("configuration read again", x.base+" /srv crossmnt,ro")
	x.each(func(c *servertest.Client) {
		reads(c)
		if _, err := c.Write(ctx, file, 0, []byte("x"), wire.FileSync); !is3(err, wire.NFS3ErrROFS) {
			t.Errorf("WRITE to what is read-only: %v", err)
		}
	})
	x.reload("configuration read again", x.base+" /srv crossmnt")
	if _, err := x.four.Write(ctx, opened.File, opened.StateID, 0, []byte("open"), wire4.FileSync4); err != nil {
		t.Errorf("WRITE by an open from before: %v", err)
	}

	// Clients are silent from here on. Where the disk is idle, the file is still open.
	disk, busy := filepath.Join(x.base, "disk"), filepath.Join(x.base, "one", "two words")
	await(t, ctx, "the disk can be unmounted", func() bool { return unix.Unmount(disk, 0) == nil })
	if err := unix.Unmount(busy, 0); err != unix.EBUSY {
		t.Errorf("umount of what has an open file: %v", err)
	}
	_, err = x.three["tcp"].GetAttr(ctx, file)
	for !stale(err) && ctx.Err() == nil {
		_, err = x.three["tcp"].GetAttr(ctx, file)
	}
	if !stale(err) {
		t.Errorf("a handle of what was unmounted: %v", err)
	}
	x.ok(x.four.CloseFile(ctx, opened.File, opened.StateID), "CLOSE")

	// Without crossmnt there is nothing.
	one, err := x.go3(x.three["tcp"], "one")
	x.ok(err, "one")
	x.reload("configuration read again", x.base+" /srv rw")
	if _, err := x.three["rdma"].GetAttr(ctx, one); !stale(err) {
		t.Errorf("a handle of a mount that is not served any more: %v", err)
	}
	x.each(func(c *servertest.Client) {
		if _, err := x.go3(c, "one"); !is3(err, wire.NFS3ErrXDev) {
			t.Errorf("one without crossmnt: %v", err)
		}
	})
	x.leave()
	endsInTime(t, x.Process, syscall.SIGTERM, inOrder)
}

// A mount that an export of its own name shows is served by that one's options.
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

// More mounts than are open at a time: a listing leads through all of them, and a client
// gets into each.
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
		if a := e.Attributes; a.Error == wire4.NFS4OK && a.FSID != (wire4.FSID4{}) {
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
	endsInTime(t, x.Process, syscall.SIGTERM, inOrder)
}

// A file system that does not answer is mounted below an export: clients are told to come
// again, and all else goes on, with the mounts that come meanwhile.
func TestMountThatStalls(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	m := stalled.Mount(t)
	defer m.LetGo()
	const name = "hangs"
	base := t.TempDir()
	at, _ := mountPoint(t, base, name)
	mount(t, m.Dir, at, "", unix.MS_BIND)
	d := startOn(t, base, t.TempDir(), "crossmnt,insecure,no_root_squash")
	ctx := testContext(t)
	clients := d.dialBoth(t)
	session, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: client.TCP, Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Cred: client.Self()},
	})
	if err != nil {
		t.Fatal(err)
	}
	four := session.NFS4()
	root, err := clients["tcp"].Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	lists := func(what string) {
		t.Helper()
		h, err := four.Walk(ctx, nil, "/")
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for e, err := range four.Readdir(ctx, h, identity) {
			if err != nil {
				t.Errorf("%s: READDIR: %v", what, err)
			}
			if e.Name == name {
				listed = e.Attributes.Error == wire4.NFS4ErrDelay && e.Attributes.Handle == nil
			}
		}
		if !listed {
			t.Errorf("%s: %s is not listed as what hangs", what, name)
		}
	}
	m.Stall()
	works := func(what string) {
		t.Helper()
		for transport, c := range clients {
			if _, err := c.Lookup(ctx, root, name); !is3(err, wire.NFS3ErrJukebox) {
				t.Errorf("%s, %s: LOOKUP of what hangs: %v", what, transport, err)
			}
			if _, err := c.Create(ctx, root, what+transport, 0o644); err != nil {
				t.Errorf("%s, %s: %v", what, transport, err)
			}
		}
		if _, err := four.Walk(ctx, nil, "/"+name); client.StatusOf(err) != wire4.NFS4ErrDelay {
			t.Errorf("%s: LOOKUP of what hangs: %v", what, err)
		}
		lists(what)
		later, _ := mountPoint(t, base, "later "+what)
		mount(t, "later", later, "tmpfs", 0)
		if _, err := clients["rdma"].Lookup(ctx, root, "later "+what); err != nil {
			t.Errorf("%s: a mount that came meanwhile: %v", what, err)
		}
	}
	works("while it is opened")
	m.LetGo()
	var hanging servertest.Handle
	await(t, ctx, "it is served", func() bool {
		hanging, err = clients["tcp"].Lookup(ctx, root, name)
		return err == nil
	})
	if _, err := clients["tcp"].Create(ctx, hanging, "file", 0o644); err != nil {
		t.Fatal(err)
	}
	m.Stall()
	hangs(t, d, m, "tcp", hanging, 30)
	m.AwaitHanging(1)
	for transport, c := range clients {
		for range 50 { // more than may wait for one file system
			if _, err := c.Lookup(ctx, root, name); err != nil {
				t.Fatalf("%s: LOOKUP of what is open and hangs: %v", transport, err)
			}
		}
		if _, err := c.Create(ctx, root, "while it is open "+transport, 0o644); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
	lists("while it is open")
	short, cancel := context.WithCancel(ctx)
	hung := make(chan error, 40)
	for range cap(hung) {
		go func() {
			h, err := four.Walk(short, nil, "/"+name)
			if err == nil {
				_, err = four.Getattr(short, h, identity)
			}
			hung <- err
		}()
	}
	m.AwaitHanging(2)
	if _, err := clients["tcp"].Create(ctx, root, "while many hang", 0o644); err != nil {
		t.Error(err)
	}
	cancel()
	m.LetGo()
	for range cap(hung) {
		<-hung
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	endsInTime(t, d.Process, syscall.SIGTERM, inOrder)
}
