package server_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A stricter export in a mount below an export with crossmnt: the daemon does not start, and a reload
// serves neither the stricter export nor the mount. If the file system is mounted later, it is not
// served as a part of the outer export.
func TestStricterExportInAMount(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	disk, _ := mountPoint(t, base, "disk")
	later, _ := mountPoint(t, base, "later")
	mount(t, "disk", disk, "tmpfs", 0)
	in, _ := mountPoint(t, disk, "in")
	if err := os.WriteFile(filepath.Join(in, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	const strict = "sec=krb5p,clients=192.0.2.1/32"
	for _, c := range []struct{ dir, name, says string }{
		{disk, "/vault", "give export /vault the name /srv/disk"},
		{in, "/vault", "take the option crossmnt from /srv"},
		{in, "/srv/disk/in", "take the option crossmnt from /srv"},
	} {
		p := nfsrdmad(t, "serve", "--state-dir", t.TempDir(), "--rdma", "none", "--tcp", servertest.FreePort(t, ownLoopback()).String(),
			"--export", base+":/srv,crossmnt", "--export", c.dir+":"+c.name+","+strict)
		if status := p.Wait(); status != 2 {
			t.Errorf("%s as %s: status %d, want 2", c.dir, c.name, status)
		}
		says(t, p, "lies in the file system mounted on "+disk, c.says)
	}

	// With the name of the mount, its options hold there. The same disk, mounted elsewhere, is not served.
	x := &crossing{t: t, base: base}
	x.reloading = startReloading(t, base+" /srv crossmnt", disk+" /srv/disk "+strict)
	x.connect()
	refused := func(names ...string) {
		t.Helper()
		x.each(func(c *servertest.Client) {
			if _, err := x.go3(c, names...); !is3(err, wire.NFS3ErrXDev) {
				t.Errorf("%v: %v", names, err)
			}
		})
	}
	refused("disk")
	mount(t, in, later, "", unix.MS_BIND)
	await(t, testContext(t), "a directory that holds no export is served", func() bool {
		_, err := x.go3(x.three["tcp"], "later", "secret")
		return err == nil
	})
	x.ok(unix.Unmount(later, unix.MNT_DETACH), "umount")
	mount(t, disk, later, "", unix.MS_BIND)
	x.AwaitLine("a mount below an export is not served")
	refused("later")
	says(t, x.Process, "a mount below an export is not served", "export /srv/disk lies in it")
	// Even when no path leads to the export's own mount any more.
	x.ok(unix.Unmount(disk, unix.MNT_DETACH), "umount")
	refused("later")
	x.ok(unix.Unmount(later, unix.MNT_DETACH), "umount")

	mount(t, "disk", disk, "tmpfs", 0)
	x.reload("configuration read again", base+" /srv crossmnt", disk+" /vault "+strict)
	says(t, x.Process, "an export is left out", "/vault lies in the file system mounted on")
	refused("disk")
	x.reload("configuration read again", base+" /srv crossmnt", disk+" /vault nested,"+strict)
	_, err := x.go3(x.three["tcp"], "disk")
	x.ok(err, "a mount that holds a nested export")
	x.leave()
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}

// A client reaches the directory above an export through a bind mount, and puts a symbolic link in the
// place of the export's directory. The daemon does not follow it.
func TestSymbolicLinkThroughABindMount(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	top := t.TempDir()
	home, _ := mountPoint(t, top, "home")
	mount(t, "home", home, "tmpfs", 0)
	projects, _ := mountPoint(t, home, "projects")
	srv, _ := mountPoint(t, top, "srv")
	bound, _ := mountPoint(t, srv, "home")
	mount(t, home, bound, "", unix.MS_BIND)
	machine, _ := mountPoint(t, top, "machine")
	if err := os.WriteFile(filepath.Join(machine, "shadow"), []byte("root:secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := &crossing{t: t, base: srv}
	x.reloading = startReloading(t, srv+" /srv crossmnt", projects+" /projects rw")
	x.connect()
	c, ctx := x.three["tcp"], testContext(t)
	h, err := x.go3(c, "home")
	x.ok(err, "/srv/home")
	x.ok(c.Status(ctx, wire.ProcRename, &wire.Rename3Args{From: where(h, "projects"), To: where(h, "away")}), "RENAME")
	x.ok(c.Status(ctx, wire.ProcSymlink, &wire.Symlink3Args{Where: where(h, "projects"), Symlink: wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte(machine)}}}), "SYMLINK")
	x.reload("configuration read again", srv+" /srv crossmnt", projects+" /projects rw")
	says(t, x.Process, "the one before is still served", "is a symbolic link")
	root, err := c.Mount(ctx, "/projects")
	x.ok(err, "MNT")
	if _, err := c.Lookup(ctx, root, "shadow"); !is3(err, wire.NFS3ErrNoEnt) {
		t.Errorf("the export shows the directory that a client named by a link: %v", err)
	}
	x.leave()
	ends(t, x.Process, syscall.SIGTERM, inOrder)
}
