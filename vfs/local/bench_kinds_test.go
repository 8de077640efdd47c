package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
)

// benchDisk mounts a new disk of a kind.
func benchDisk(b *testing.B, kind string, size int64) string {
	image, dir := filepath.Join(b.TempDir(), "image"), b.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		b.Fatal(err)
	}
	if err := program("mkfs."+kind, "-q", image); err != nil {
		b.Skip(err)
	}
	if _, err := loop.Mount(image, dir, kind, 0, ""); err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func benchFS(b *testing.B, root string) *local.FS {
	fs, err := local.New(local.Config{Root: root, Sync: true, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { fs.Close() })
	return fs
}

var benchOp = vfs.Op{Cred: &vfs.Cred{}}

// A durable SETATTR of a symlink, which cannot be synced alone, beside that of a file.
func BenchmarkSetAttr(b *testing.B) {
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		dir := benchDisk(b, kind, 512<<20)
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Symlink("target", filepath.Join(dir, "symlink")); err != nil {
			b.Fatal(err)
		}
		fs := benchFS(b, dir)
		for _, name := range []string{"file", "symlink"} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				op := benchOp
				var da vfs.Attr
				o, err := fs.Lookup(&op, fs.Root(), []byte(name), &da)
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; b.Loop(); i++ {
					set := vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 1e9 + int64(i)}}
					if _, err := fs.SetAttr(&op, o.Handle, &set, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A listing of a large directory. On an overlay, places in a listing are made of the names.
func BenchmarkListLarge(b *testing.B) {
	const names = 80_000
	disk := benchDisk(b, "ext4", 3<<30)
	merged := filepath.Join(disk, "m")
	for _, d := range []string{"u/d", "w", "l", "m"} {
		if err := os.MkdirAll(filepath.Join(disk, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for i := range names {
		if err := unix.Mknod(filepath.Join(disk, "u/d", fmt.Sprintf("file-%08d", i)), unix.S_IFREG|0o644, 0); err != nil {
			b.Fatal(err)
		}
	}
	layers := fmt.Sprintf("lowerdir=%s/l,upperdir=%s/u,workdir=%s/w", disk, disk, disk)
	if err := unix.Mount("overlay", merged, "overlay", 0, layers); err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { unix.Unmount(merged, unix.MNT_DETACH) })
	for _, c := range []struct{ name, root string }{{"ext4", filepath.Join(disk, "u")}, {"overlayfs", merged}} {
		b.Run(c.name, func(b *testing.B) {
			fs := benchFS(b, c.root)
			op := benchOp
			var da vfs.Attr
			o, err := fs.Lookup(&op, fs.Root(), []byte("d"), &da)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				n, from, eof := 0, uint64(0), false
				for !eof {
					at := n
					eof, err = fs.ReadDir(&op, o.Handle, from, false, &da, func(e *vfs.DirEntry) bool {
						if n-at == 1000 {
							return false
						}
						n, from = n+1, e.Cookie
						return true
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				if n < names {
					b.Fatal(n)
				}
			}
		})
	}
}
