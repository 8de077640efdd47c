package server_test

import (
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
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
)

// A twin is one of two disks, each with a file of the same name whose handles in the file system are
// equal: its inode number and its generation are the same.
type twin struct{ kind, image, text string }

// twins makes two such disks. It skips the test if this machine cannot.
func twins(t *testing.T, kind, at string) (one, two twin) {
	t.Helper()
	dir := t.TempDir()
	one, two = twin{kind, filepath.Join(dir, "one"), "disk 1"}, twin{kind, filepath.Join(dir, "two"), "disk 2"}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
	}
	fill := func(d twin) {
		t.Helper()
		d.mount(t, at)
		if err := os.WriteFile(filepath.Join(at, "file"), []byte(d.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
	run("truncate", "-s", "128M", one.image)
	run("mkfs."+kind, "-q", one.image)
	fill(one)
	if kind == "btrfs" { // it numbers files and transactions from the same number in each new file system
		run("truncate", "-s", "128M", two.image)
		run("mkfs.btrfs", "-q", two.image)
	} else {
		run("cp", one.image, two.image)
		run("tune2fs", "-U", "random", two.image)
	}
	fill(two)
	return one, two
}

// mount mounts the disk, when it is no longer in use: if btrfs is mounted while it is, from another device,
// the kernel takes the second one for a copy, and gives it another UUID.
func (d twin) mount(t *testing.T, at string) {
	t.Helper()
	await(t, testContext(t), "the disk is free", func() bool {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		return !slices.ContainsFunc(files, func(file string) bool {
			image, _ := os.ReadFile(file)
			return strings.TrimSpace(string(image)) == d.image
		})
	})
	if _, err := loop.Mount(d.image, at, d.kind, 0, ""); err != nil {
		t.Skipf("%s cannot be mounted here: %v", d.kind, err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
}

// If another disk is mounted where one was, handles of files on the first are stale, in an export and in a
// mount below one, after a reload and after a new start of the daemon, and no call reads or writes the
// other disk. If the first is mounted again, they are good again.
func TestHandlesOfADiskThatWasExchanged(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	for _, kind := range []string{"ext4", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			x := &crossing{t: t, base: t.TempDir()}
			disk, _ := mountPoint(t, x.base, "disk")
			one, two := twins(t, kind, disk)
			one.mount(t, disk)
			both := []string{x.base + " /srv crossmnt", disk + " /disk rw"}
			x.reloading = startReloading(t, both...)
			x.connect()
			handles := x.handlesOfFile()
			exchange := map[string]func(d twin){
				"reload": func(d twin) { // the export is served all the time, so its disk stays until the reload
					unix.Unmount(disk, unix.MNT_DETACH)
					d.mount(t, disk)
					x.reload("configuration read again", both...)
					says(t, x.Process, "another file system than before is mounted at the path of an export", "warn", "stale")
				},
				"removed meanwhile": func(d twin) {
					unix.Unmount(disk, unix.MNT_DETACH)
					x.reload("configuration read again", both[0])
					d.mount(t, disk)
					x.reload("configuration read again", both...)
				},
				"start": func(d twin) {
					x.leave()
					ends(t, x.Process, syscall.SIGTERM, inOrder)
					unix.Unmount(disk, unix.MNT_DETACH)
					d.mount(t, disk)
					x.Process = nfsrdmad(t, "serve", "--config", x.config)
					x.AwaitLine("serving")
					x.connect()
				},
			}
			for _, how := range []string{"reload", "removed meanwhile", "start"} {
				exchange[how](two)
				for what, h := range handles {
					x.isStale(how+": "+what, h)
				}
				if got, err := os.ReadFile(filepath.Join(disk, "file")); err != nil || string(got) != two.text {
					t.Fatalf("%s: the file on the other disk has %q, %v", how, got, err)
				}
				exchange[how](one)
				for what, h := range handles {
					x.reads(how+": "+what, h, one.text)
				}
			}
			x.leave()
			ends(t, x.Process, syscall.SIGTERM, inOrder)
		})
	}
}

// handlesOfFile returns handles of the file on the disk, by the way that leads to it.
func (x *crossing) handlesOfFile() map[string]servertest.Handle {
	x.t.Helper()
	ctx, c := testContext(x.t), x.three["tcp"]
	mounted, err := x.go3(c, "disk", "file")
	x.ok(err, "file below /srv")
	root, err := c.Mount(ctx, "/disk")
	x.ok(err, "MNT")
	exported, err := c.Lookup(ctx, root, "file")
	x.ok(err, "file")
	return map[string]servertest.Handle{"in a mount": mounted, "in an export": exported}
}

// awaitAwake calls f until a mount that has to be opened is open.
func (x *crossing) awaitAwake(f func() error) (err error) {
	x.t.Helper()
	await(x.t, testContext(x.t), "the mount is open", func() bool {
		err = f()
		return !is3(err, wire.NFS3ErrJukebox) && client.StatusOf(err) != wire4.NFS4ErrDelay
	})
	return err
}

// isStale checks that READ and WRITE by version 3 and GETATTR by version 4 return that a handle is stale.
func (x *crossing) isStale(what string, h servertest.Handle) {
	x.t.Helper()
	ctx, c := testContext(x.t), x.three["rdma"]
	p := make([]byte, 16)
	for call, err := range map[string]error{
		"WRITE": x.awaitAwake(func() error {
			_, err := c.Write(ctx, h, 0, []byte("of another disk"), wire.FileSync)
			return err
		}),
		"READ": x.awaitAwake(func() error {
			_, err := c.Read(ctx, h, 0, p)
			return err
		}),
	} {
		if !stale(err) {
			x.t.Errorf("%s, %s: %v", what, call, err)
		}
	}
	err := x.awaitAwake(func() error {
		_, err := x.four.Getattr(ctx, client.Handle(h), identity)
		return err
	})
	if client.StatusOf(err) != wire4.NFS4ErrStale {
		x.t.Errorf("%s, GETATTR of version 4: %v", what, err)
	}
}

func (x *crossing) reads(what string, h servertest.Handle, text string) {
	x.t.Helper()
	p, n := make([]byte, 16), 0
	err := x.awaitAwake(func() (err error) {
		n, err = x.three["tcp"].Read(testContext(x.t), h, 0, p)
		return err
	})
	if err != nil || string(p[:n]) != text {
		x.t.Errorf("%s: %q, %v", what, p[:n], err)
	}
}

// If an export gets another directory of the same file system, handles of files in the former directory
// are stale, also if the export was not served meanwhile.
func TestHandlesOfADirectoryThatIsNotExportedAnyMore(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(dir), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := startReloading(t, one+" /a rw")
	ctx, c := testContext(t), d.dialBoth(t)["tcp"]
	root, err := c.Mount(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Lookup(ctx, root, "file")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1024)
	for _, exports := range [][]string{{two + " /a rw"}, {two + " /b rw"}, {t.TempDir() + " /a rw"}} {
		d.reload("configuration read again", exports...)
		for _, h := range []servertest.Handle{root, h} {
			if _, err := c.GetAttr(ctx, h); !stale(err) {
				t.Errorf("%v, GETATTR: %v", exports, err)
			}
		}
		if n, err := c.Read(ctx, h, 0, p); !stale(err) {
			t.Errorf("%v, READ: %q, %v", exports, p[:n], err)
		}
	}
	d.reload("configuration read again", one+" /a rw")
	if n, err := c.Read(ctx, h, 0, p); err != nil || string(p[:n]) != one {
		t.Errorf("the directory is exported again: %q, %v", p[:n], err)
	}
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}
