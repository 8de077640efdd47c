package server_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// ownMounts is the environment variable of a process with its own mount namespace.
const ownMounts = "SERVERTEST_OWN_MOUNTS"

// inOwnMounts runs the calling test again in a process with its own mount namespace, and
// returns true there. The end of that process removes its mounts.
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

// mountPoint makes a directory below another one, and returns its path and inode number.
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

// mountDisk mounts a new ext4 file system. It returns false if that is impossible here.
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

// crossing is a daemon with an export /srv that has mounts below it.
type crossing struct {
	*reloading
	t       *testing.T
	base    string
	three   map[string]*servertest.Client
	four    client.NFS4
	covered map[string]uint64 // inode numbers of the covered directories, by name below base
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

// connect connects to the daemon. An earlier session of version 4 must have ended.
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

// each calls f with the NFSv3 client of each transport.
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

// go3 follows names by LOOKUPs of version 3.
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

// fileSystem returns the FSID and the file ID that version 3 returns for an object.
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

// above returns the directory above h, by LOOKUPP.
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
