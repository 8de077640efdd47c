package server_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Clients see a new or removed mount at once. Handles stay valid over a restart of the
// daemon, but do not keep a mount busy: an unused mount can be unmounted, a mount with open
// files cannot.
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
	x.head += "[nfs]\nlease_time = \"5s\"\n" // grace lasts as long
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

	// New options of an export also apply to the mounts below it. Open files stay open.
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

	reads(x.three["rdma"]) // this is the last use of the disk
	// From here on clients are silent. The disk becomes idle, but the other mount has an
	// open file.
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

	// Without crossmnt no mount is served.
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
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}
