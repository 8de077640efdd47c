package local_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// benchFile makes a file of size bytes with the owner c in a new file system.
func benchFile(b *testing.B, c *vfs.Cred, size int, sync bool) (fs *local.FS, op *vfs.Op, dir, file vfs.Handle) {
	root := vfs.Op{Cred: &vfs.Cred{}}
	fs, err := local.New(local.Config{Root: b.TempDir(), Sync: sync})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { fs.Close() })
	d, _, err := fs.Mkdir(&root, fs.Root(), []byte("d"), &vfs.SetAttr{SetMode: true, Mode: 0o777})
	if err != nil {
		b.Fatal(err)
	}
	op = &vfs.Op{Cred: c}
	o, _, err := fs.Create(op, d.Handle, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{SetMode: true, Mode: 0o644}})
	if err != nil {
		b.Fatal(err)
	}
	if size > 0 {
		if _, _, _, err := fs.Write(op, o.Handle, 0, [][]byte{make([]byte, size)}, vfs.Unstable); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := fs.Commit(op, o.Handle, 0, 0); err != nil {
		b.Fatal(err)
	}
	return fs, op, d.Handle, o.Handle
}

var users = map[string]*vfs.Cred{"owner": {UID: 1000, GID: 1000}, "root": {}}

func BenchmarkGetAttr(b *testing.B) {
	fs, op, _, h := benchFile(b, users["owner"], 0, false)
	op.Try = true
	var a vfs.Attr
	b.ReportAllocs()
	for b.Loop() {
		if err := fs.GetAttr(op, h, &a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for who, c := range users {
		b.Run(who, func(b *testing.B) {
			fs, op, dir, _ := benchFile(b, c, 0, false)
			time.Sleep(1100 * time.Millisecond) // the FS does not remember verdicts on a directory that changed a moment ago
			var a vfs.Attr
			if _, err := fs.Lookup(op, dir, []byte("f"), &a); err != nil {
				b.Fatal(err)
			}
			op.Try = true
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fs.Lookup(op, dir, []byte("f"), &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAccess(b *testing.B) {
	fs, op, dir, _ := benchFile(b, users["owner"], 0, false)
	time.Sleep(1100 * time.Millisecond)
	var a vfs.Attr
	if _, err := fs.Access(op, dir, 0x1f, &a); err != nil {
		b.Fatal(err)
	}
	op.Try = true
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fs.Access(op, dir, 0x1f, &a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			fs, op, _, h := benchFile(b, users["owner"], 4<<20, false)
			buf := make([]byte, size)
			var a vfs.Attr
			settle(b, fs, op.Cred, h)
			op.Try = true
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if n, _, err := fs.Read(op, h, 4096, buf, &a); err != nil || n != size {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		for _, try := range []bool{false, true} {
			b.Run(fmt.Sprint(size, "/try=", try), func(b *testing.B) {
				fs, op, _, h := benchFile(b, users["owner"], 4<<20, false)
				data := [][]byte{make([]byte, size)}
				op.Try = try
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, _, err := fs.Write(op, h, 4096, data, vfs.Unstable); err != nil {
						if try && err == vfs.ErrWouldBlock {
							b.Skip("not without blocking here")
						}
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCreateUnlink(b *testing.B) {
	for who, c := range users {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprint(who, "/sync=", sync), func(b *testing.B) {
				fs, op, dir, _ := benchFile(b, c, 0, sync)
				var name atomic.Uint64
				b.ReportAllocs()
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						f := fmt.Appendf(nil, "f%d", name.Add(1))
						if _, _, err := fs.Create(op, dir, f, &vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{SetMode: true, Mode: 0o644}}); err != nil {
							b.Fatal(err)
						}
						if _, err := fs.Remove(op, dir, f); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkReadDir(b *testing.B) {
	for _, plus := range []bool{false, true} {
		b.Run(fmt.Sprint("plus=", plus), func(b *testing.B) {
			fs, op, dir, _ := benchFile(b, users["owner"], 0, false)
			for i := range 1000 {
				if _, _, err := fs.Create(op, dir, fmt.Appendf(nil, "name%d", i), &vfs.CreateHow{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				var a vfs.Attr
				n := 0
				if _, err := fs.ReadDir(op, dir, 0, plus, &a, func(*vfs.DirEntry) bool { n++; return true }); err != nil || n < 1000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkFindDeepDirectory finds directories by handle, far below a root that is not the top of
// its mount. They do not fit into the cache, so each has been dropped before its next use.
func BenchmarkFindDeepDirectory(b *testing.B) {
	for _, levels := range []int{3, 1000, 3900} {
		b.Run(fmt.Sprint(levels), func(b *testing.B) {
			root := b.TempDir()
			handles := deep(b, root, "d", levels, 200)
			fs, err := local.New(local.Config{Root: root, Descriptors: local.NewDescriptors(200)})
			if err != nil {
				b.Fatal(err)
			}
			defer fs.Close()
			self := local.Identity()
			op := &vfs.Op{Cred: &self}
			b.ResetTimer()
			for i := range b.N {
				var a vfs.Attr
				if err = fs.GetAttr(op, handles[i%len(handles)], &a); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(fs.Stats().Climbs)/float64(b.N), "climbs/op")
		})
	}
}
