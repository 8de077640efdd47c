package local_test

import (
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A Change names one state. While a client appends, no operation returns an older size with the
// Change of a WRITE, and an operation that begins after a WRITE shows its effect. This also holds
// between two exports of one tree.
func TestLooksBesideWrites(t *testing.T) {
	looks := map[string]func(fs *local.FS, op *vfs.Op, h vfs.Handle) (vfs.Attr, error){
		"GetAttr": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (a vfs.Attr, err error) {
			return a, fs.GetAttr(op, h, &a)
		},
		"Access": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (a vfs.Attr, err error) {
			_, err = fs.Access(op, h, vfs.AccessRead, &a)
			return a, err
		},
		"Read": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (a vfs.Attr, err error) {
			_, _, err = fs.Read(op, h, 0, make([]byte, 1), &a)
			return a, err
		},
		"Lookup": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (vfs.Attr, error) {
			o, err := fs.Lookup(op, fs.Root(), []byte("f"), new(vfs.Attr))
			return o.Attr, err
		},
		"ReadDir": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (found vfs.Attr, err error) {
			_, err = fs.ReadDir(op, fs.Root(), 0, true, new(vfs.Attr), func(e *vfs.DirEntry) bool {
				if string(e.Name) == "f" {
					found = e.Attr
				}
				return true
			})
			return found, err
		},
		"Commit": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (vfs.Attr, error) {
			ch, err := fs.Commit(op, h, 0, 0)
			return ch.After, err
		},
		"SetAttr": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (vfs.Attr, error) {
			ch, err := fs.SetAttr(op, h, &vfs.SetAttr{AtimeHow: vfs.ServerTime}, nil)
			return ch.After, err
		},
		"Link": func(fs *local.FS, op *vfs.Op, h vfs.Handle) (a vfs.Attr, err error) {
			if _, err = fs.Link(op, h, fs.Root(), []byte("l"), &a); err == nil {
				_, err = fs.Remove(op, fs.Root(), []byte("l"))
			}
			return a, err
		},
	}
	for name, ask := range looks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, local.Config{})
			other := open(t, local.Config{Root: w.cfg.Root, StateDir: t.TempDir()})
			h := w.create(w.fs.Root(), "f")
			type seen struct{ change, size, answered uint64 }
			var answered atomic.Uint64
			var stop atomic.Bool
			var wg sync.WaitGroup
			found := make([][]seen, 2)
			for i, fs := range []*local.FS{w.fs, other} {
				if name == "Link" && i > 0 {
					continue // Link is called only through the first export
				}
				wg.Go(func() {
					for !stop.Load() {
						before := answered.Load()
						a, err := ask(fs, w.op, h)
						if err != nil {
							t.Error(err)
							return
						}
						found[i] = append(found[i], seen{a.Change, a.Size, before})
						if fs == other {
							other.EvictAll()
						}
					}
				})
			}
			sizes := map[uint64]uint64{}
			for n := range uint64(2000) {
				_, _, ch, err := w.fs.Write(w.op, h, n, [][]byte{{1}}, vfs.Unstable)
				w.ok(err)
				sizes[ch.After.Change] = ch.After.Size
				answered.Store(ch.After.Size)
			}
			stop.Store(true)
			wg.Wait()
			for _, f := range found {
				last := uint64(0)
				for _, s := range f {
					if size, ok := sizes[s.change]; ok && s.size < size {
						t.Fatalf("Change %d was told with size %d behind a WRITE, and with size %d", s.change, size, s.size)
					}
					if s.size < s.answered {
						t.Fatalf("size %d is told behind a WRITE that told %d", s.size, s.answered)
					}
					if s.change < last {
						t.Fatalf("Change %d is told behind %d", s.change, last)
					}
					last = s.change
				}
			}
		})
	}
}

// If a file's ctime is ahead of the clock, because the clock was set back or the disk comes from
// another machine, changes by local programs still raise its Change.
func TestChangeAheadOfTheClock(t *testing.T) {
	d := newDisk(t)
	if err := os.WriteFile(d.dir+"/f", []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(d.dir, 0); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("debugfs", "-w", "-R", "set_inode_field /f ctime 20700101000000", d.image).CombinedOutput(); err != nil {
		t.Skipf("debugfs: %v: %s", err, out)
	}
	d.mount()
	w := newWorld(t, local.Config{Root: d.dir})
	f, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	for i := range 3 {
		before, err := w.attr(f)
		w.ok(err, "GetAttr")
		w.ok(os.WriteFile(w.path("f"), make([]byte, 10+i), 0o644))
		if after, err := w.attr(f); err != nil || after.Change <= before.Change {
			t.Errorf("Change %d, and behind a change by a local program %d, %v", before.Change, after.Change, err)
		}
		if i == 1 {
			w.fs.EvictAll()
		}
	}
}

// The inode table keeps the Changes of removed inodes that are ahead of the ctime, up to a limit.
// Beyond the limit, it drops the one that is least ahead.
func TestChangesAheadOfTheCtimeAreBounded(t *testing.T) {
	kept := local.KeepAhead([]uint64{9, 1, 1000, 2, 8})
	if kept != 4 {
		t.Errorf("of five Changes %d are kept, or not the one that is the least ahead went", kept)
	}
}

// An inode that the table kept counts as new when it is used again: a look at the file by its name that
// began before does not mistake an old ctime for the Change, and only later failures of syncs matter.
func TestKeptInodesAreTakenAnew(t *testing.T) {
	fooled, confirmed := local.UseKept()
	if fooled || confirmed != 2 {
		t.Errorf("an old ctime counts as the Change: %v; %d failed syncs count as verified, want 2", fooled, confirmed)
	}
}
