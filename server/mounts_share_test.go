package server_test

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// deafMounts mounts FUSE file systems of the user uid whose requests are never answered. The end of
// the test, or the returned function, makes all their requests fail.
func deafMounts(t *testing.T, base string, uid, n int) (names []string, end func()) {
	t.Helper()
	var fuses []*os.File
	end = sync.OnceFunc(func() {
		for _, f := range fuses {
			f.Close()
		}
	})
	t.Cleanup(end)
	for i := range n {
		f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			t.Skip(err)
		}
		fuses = append(fuses, f)
		name := fmt.Sprintf("deaf %d %d", uid, i)
		at, _ := mountPoint(t, base, name)
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", f.Fd(), uid, uid)
		if err := unix.Mount("deaf", at, "fuse", 0, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		names = append(names, name)
	}
	return names, end
}

// However many FUSE file systems of a user do not answer, other mounts below an export are opened, and
// so are FUSE file systems of other users.
func TestDeafMountsOfOneUser(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	deaf, end := deafMounts(t, base, 1001, 80)
	other, _ := mountPoint(t, base, "disk")
	mount(t, "disk", other, "tmpfs", 0)
	d := startOn(t, base, t.TempDir(), "crossmnt,insecure,no_root_squash")
	ctx := testContext(t)
	c := d.dialBoth(t)["tcp"]
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, name := range deaf {
		all.Go(func() {
			if _, err := c.Lookup(ctx, root, name); !is3(err, wire.NFS3ErrJukebox) {
				t.Errorf("LOOKUP of %s: %v", name, err)
			}
		})
	}
	all.Wait()
	await(t, ctx, "another mount is opened", func() bool {
		_, err := c.Lookup(ctx, root, "disk")
		if err != nil && !is3(err, wire.NFS3ErrJukebox) {
			t.Fatal(err)
		}
		return err == nil
	})
	end()
	await(t, ctx, "the user's mounts are closed", func() bool {
		_, err := c.Lookup(ctx, root, deaf[0])
		return !is3(err, wire.NFS3ErrJukebox)
	})
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}
