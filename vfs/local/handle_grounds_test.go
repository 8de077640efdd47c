package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

var groundKinds = []groundKind{
	{name: "ext4", format: 1, kind: "ext2, ext3, ext4", volumes: disks("ext4", 64<<20, newUUID...)},
	{name: "ext4 by the index", format: 1, kind: "ext2, ext3, ext4", volumes: disks("ext4", 64<<20, newUUID...), index: true},
	{name: "ext2", format: 1, kind: "ext2, ext3, ext4", volumes: disks("ext2", 64<<20, newUUID...)},
	{name: "XFS", format: 1, kind: "XFS", volumes: disks("xfs", 320<<20, "xfs_admin", "-U", "generate")},
	{name: "btrfs with subvolumes", format: 1, kind: "btrfs", volumes: disks("btrfs", 256<<20, "btrfstune", "-f", "-u"), more: []string{"d/snapshot/b", "d/snapshot/e/c"}},
	{name: "F2FS", format: 1, kind: "F2FS, bcachefs, ZFS", volumes: disks("f2fs", 128<<20, "f2fslabel")},
	{name: "tmpfs", format: 1, kind: "tmpfs", volumes: memory("tmpfs"), fleeting: true},
	{name: "ramfs", format: 2, kind: allOthers, volumes: memory("ramfs"), fleeting: true},
	{name: "FAT", format: 3, kind: allOthers, volumes: disks("vfat", 64<<20, "fatlabel")},
	{name: "overlayfs", format: 1, kind: "overlayfs", volumes: overlays("", onOne)},
	{name: "overlayfs with nfs_export", format: 1, kind: "overlayfs", volumes: overlays("index=on,nfs_export=on", onOne)},
	{name: "overlayfs over two file systems", format: 1, kind: "overlayfs", volumes: overlays("xino=off", onTwo), forgets: true},
	// The handles are as long as clients' handles may be.
	{name: "overlayfs over btrfs", format: 1, kind: "overlayfs", volumes: overlays("", onBtrfs)},
	{name: "FUSE by libfuse's high level", format: 3, kind: allOthers, volumes: shown(func(_ *ground, backing, dir string) error {
		return program("bindfs", backing, dir)
	})},
	{name: "FUSE by libfuse's low level", format: 3, kind: allOthers, volumes: shown(func(g *ground, backing, dir string) error {
		return program("fuse-overlayfs", "-o", "lowerdir="+g.folder("lower")+",upperdir="+backing+",workdir="+backing+".work", dir)
	}), reuses: true},
	{name: "FUSE by go-fuse", format: 3, kind: allOthers, volumes: shown(func(g *ground, backing, dir string) error {
		return stalled.Show(g.t, backing, dir)
	})},
	{name: "NFS", format: 3, kind: allOthers, volumes: offeredByNFS},
}

// offeredByNFS makes mounts of NFS. NFSRDMAD_TEST_NFS has the options of all mounts and three directories of servers, as
// HOST:DIRECTORY, separated by blanks. A guest of package test/kernel has such a server.
func offeredByNFS(g *ground) (own volume, others []volume) {
	f := strings.Fields(os.Getenv("NFSRDMAD_TEST_NFS"))
	if len(f) != 4 {
		g.t.Skip("NFSRDMAD_TEST_NFS does not have the options of a mount of NFS and three directories of servers")
	}
	made := func(name, source string) volume {
		v := volume{name, func(dir string) error { return unix.Mount(source, dir, "nfs", 0, f[0]) }}
		g.mount(v)
		g.must(g.fill(g.dir, name))
		g.must(unix.Unmount(g.dir, 0))
		return v
	}
	return made("its own", f[1]), []volume{made("another", f[2]), made("a third", f[3])}
}

// newUUID gives an ext2, ext3 or ext4 image another UUID. tune2fs wants the image to be checked first, if it was
// mounted in a later second than the one in which it was made.
var newUUID = []string{"sh", "-c", `e2fsck -fp "$0"; tune2fs -f -U random "$0"`}

const allOthers = "all others, FUSE among them"

// disks makes images with mkfs: the first, another one made anew, and a copy of the first that gets an
// identity of its own from a program, whose arguments these are, without the image.
func disks(kind string, size int64, anew ...string) func(g *ground) (own volume, others []volume) {
	return func(g *ground) (own volume, others []volume) {
		dir := g.t.TempDir()
		disk := func(name string, makes func(image string)) volume {
			image := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			v := volume{name, func(dir string) error {
				await.Until(g.t, "no device shows the image", func() bool { return !onLoop(image) })
				_, err := loop.Mount(image, dir, kind, 0, "")
				return err
			}}
			makes(image)
			g.mount(v)
			if _, err := os.Stat(filepath.Join(g.dir, "d")); kind == "btrfs" && err != nil {
				g.run("btrfs", "-q", "subvolume", "create", filepath.Join(g.dir, "d"))
				g.must(g.fill(g.dir, name))
				g.must(os.RemoveAll(filepath.Join(g.dir, "d/snapshot")))
				g.run("btrfs", "-q", "subvolume", "snapshot", filepath.Join(g.dir, "d"), filepath.Join(g.dir, "d/snapshot"))
			}
			g.must(g.fill(g.dir, name))
			g.must(unix.Unmount(g.dir, 0))
			return v
		}
		mkfs := func(image string) {
			g.must(os.WriteFile(image, nil, 0o600))
			g.must(os.Truncate(image, size))
			quiet := []string{"mkfs." + kind, "-q", image}
			if kind == "vfat" {
				quiet = slices.Delete(quiet, 1, 2)
			}
			g.run(quiet...)
		}
		own = disk("its own", mkfs)
		others = append(others, disk("one made anew", mkfs), disk("a copy with another UUID", func(image string) {
			g.run("cp", "--sparse=always", filepath.Join(dir, "its-own"), image)
			g.run(append(slices.Clone(anew), image)...)
		}))
		return own, others
	}
}

// onLoop reports whether a loop device shows an image.
func onLoop(image string) bool {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	return slices.ContainsFunc(files, func(file string) bool {
		is, _ := os.ReadFile(file)
		return strings.TrimSpace(string(is)) == image
	})
}

// memory makes file systems in memory.
func memory(kind string) func(g *ground) (own volume, others []volume) {
	return func(g *ground) (own volume, others []volume) {
		made := func(name string) volume {
			return volume{name, func(dir string) error {
				if err := unix.Mount("memory", dir, kind, 0, ""); err != nil {
					return err
				}
				return g.fill(dir, name)
			}}
		}
		return made("its own"), []volume{made("another"), made("a third")}
	}
}

// Where the layers of an overlay are: on one file system, the upper ones on a tmpfs, or all on a btrfs.
const (
	onOne = iota
	onTwo
	onBtrfs
)

// overlays makes overlays with these options: the first, another one, and one with the lower layer of the
// first and another upper layer.
func overlays(options string, layers int) func(g *ground) (own volume, others []volume) {
	return func(g *ground) (own volume, others []volume) {
		if layers == onBtrfs {
			base := newDiskOf(g.t, "btrfs").dir
			g.t.Cleanup(func() { g.detach() }) // before the btrfs
			g.base = base
		}
		lower := func(name string) string {
			dir := g.folder("lower")
			g.must(g.fill(dir, name))
			return dir
		}
		made := func(name, lower string) volume {
			upper := g.folder("upper")
			if layers == onTwo {
				g.must(unix.Mount("upper", upper, "tmpfs", 0, ""))
				g.t.Cleanup(func() { unix.Unmount(upper, unix.MNT_DETACH) })
			}
			g.must(mkdirs(upper+"/u", upper+"/w"))
			all := fmt.Sprintf("lowerdir=%s,upperdir=%s/u,workdir=%s/w,%s", lower, upper, upper, options)
			return volume{name, func(dir string) error { return unix.Mount("overlay", dir, "overlay", 0, strings.TrimSuffix(all, ",")) }}
		}
		first := lower("its own")
		same := made("with another upper layer", first)
		g.mount(same)
		g.must(g.fill(g.dir, same.name))
		g.must(unix.Unmount(g.dir, 0))
		return made("its own", first), []volume{made("another", lower("another")), same}
	}
}

// shown makes file systems that show a directory each.
func shown(show func(g *ground, backing, dir string) error) func(g *ground) (own volume, others []volume) {
	return func(g *ground) (own volume, others []volume) {
		if unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
			g.t.Skip("this machine has no /dev/fuse")
		}
		made := func(name string) volume {
			backing := g.folder("backing")
			g.must(mkdirs(backing + ".work"))
			g.must(g.fill(backing, name))
			return volume{name, func(dir string) error { return show(g, backing, dir) }}
		}
		return made("its own"), []volume{made("another"), made("a third")}
	}
}

// program runs a program that mounts a file system and goes on in the background.
func program(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}

func (g *ground) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}
