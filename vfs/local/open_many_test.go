package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// One of several FSs may use most of the descriptors that the others do not need, for open files. The
// others still get descriptors.
func TestOneFileSystemOpensManyFiles(t *testing.T) {
	if !local.CanSwitch() {
		t.Skip("the daemon may not open every file again")
	}
	for name, c := range map[string]struct{ limit, members, want int }{
		"a large limit and many exports":   {1 << 17, 50, 5000},
		"the limit of a shell and several": {9337, 8, 3000},
		"alone":                            {2000, 1, 1400},
	} {
		t.Run(name, func(t *testing.T) {
			base := places(t)["tmpfs"]
			if base == nil {
				t.Skip("tmpfs cannot be mounted here")
			}
			root := base(t)
			budget := local.NewDescriptors(c.limit)
			var all []*world
			for i := range c.members {
				dir := filepath.Join(root, fmt.Sprint(i))
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				all = append(all, newWorld(t, local.Config{Root: dir, Descriptors: budget}))
			}
			greedy, other := all[0], all[len(all)-1]
			most := 0
			for ; most < c.limit; most++ {
				h := greedy.create(greedy.fs.Root(), fmt.Sprint("f", most))
				f, err := greedy.fs.Open(greedy.op, h, vfs.OpenRead|vfs.OpenWrite)
				if most == c.want {
					if err == nil {
						f.Close()
					}
					break
				}
				greedy.ok(err, "Open of file ", most)
				t.Cleanup(f.Close)
			}
			if held := budget.Held(); held > budget.Limit() {
				t.Errorf("%d descriptors of %d are held", held, budget.Limit())
			}
			for i := range min(c.limit/64, 500) {
				h := other.create(other.fs.Root(), fmt.Sprint("o", i))
				other.open(h, vfs.OpenRead)
			}
		})
	}
}

// Beyond the limit, an Open is refused, and the budget tells of it.
func TestRefusedOpensAreTold(t *testing.T) {
	budget := local.NewDescriptors(100)
	told := 0
	budget.Full = func() { told++ }
	w := newWorld(t, local.Config{Descriptors: budget})
	for i := 0; told == 0; i++ {
		f, err := w.fs.Open(w.op, w.create(w.fs.Root(), fmt.Sprint("f", i)), vfs.OpenRead)
		if err == nil {
			t.Cleanup(f.Close)
		} else if w.want(err, vfs.ErrDelay, "Open"); told != 1 {
			t.Fatal("the budget does not tell of the refusal")
		}
	}
	if budget.Refused() != 1 {
		t.Errorf("%d refusals are counted", budget.Refused())
	}
}

// If descriptors are short, those for the data of open files are closed and opened again, also if a
// file has no name any more, and if its mode forbids the access that was granted at Open.
func TestOpenFilesWithoutDescriptors(t *testing.T) {
	if !local.CanSwitch() {
		t.Skip("the daemon may not open every file again")
	}
	dirs := places(t)
	for kind := range diskTypes {
		dirs[kind] = func(t *testing.T) string { return newDiskOf(t, kind).dir }
	}
	for kind, dir := range dirs {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: dir(t), Descriptors: local.NewDescriptors(120)})
			user := &vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}
			if kind == "FAT" {
				user = w.op
			}
			var files []vfs.File
			for i := range 40 {
				h := w.create(w.fs.Root(), fmt.Sprint("f", i))
				s := mode(0o666)
				_, err := w.fs.SetAttr(w.op, h, &s, nil)
				w.ok(err, "SetAttr")
				f, err := w.fs.Open(user, h, vfs.OpenRead|vfs.OpenWrite)
				if errors.Is(err, vfs.ErrDelay) {
					break // a file system whose descriptors have to be kept
				}
				w.ok(err, "Open")
				t.Cleanup(f.Close)
				files = append(files, f)
				s = mode(0o200)
				if kind != "FAT" {
					s = mode(0)
				}
				_, err = w.fs.SetAttr(w.op, h, &s, nil)
				w.ok(err, "SetAttr")
				if i%2 == 0 {
					w.remove(w.fs.Root(), fmt.Sprint("f", i))
				}
			}
			for round := range 2 {
				for i, f := range files {
					w.fs.CloseForRoom()
					text := fmt.Sprint("text ", i, round)
					_, _, _, err := f.Write(user, 0, [][]byte{[]byte(text)}, vfs.FileSync)
					w.ok(err, "Write of file ", i)
					w.fs.CloseForRoom()
					buf := make([]byte, 20)
					n, _, err := f.Read(user, 0, buf, new(vfs.Attr))
					if err != nil || string(buf[:n]) != text {
						t.Fatalf("file %d: %q, %v; want %q", i, buf[:n], err, text)
					}
				}
			}
			for _, f := range files {
				f.Close()
			}
			await.Until(t, "nothing is pinned", func() bool { return w.fs.Stats().Pinned == 0 })
		})
	}
}

// When a client has closed a file that it wrote, the file can be executed: at once if its data is
// stable, and otherwise after the COMMIT. A client of NFSv3 closes nothing, and the COMMIT is enough.
func TestClosedFileCanBeExecuted(t *testing.T) {
	for name, do := range map[string]func(w *world, h vfs.Handle){
		"close after a commit": func(w *world, h vfs.Handle) {
			f := w.open(h, vfs.OpenRead|vfs.OpenWrite)
			_, err := f.Commit(w.op, 0, 0)
			w.ok(err, "Commit")
			if !w.fs.OpenToWrite(h) {
				w.Error("an open file is closed")
			}
			f.Close()
		},
		"commit after the close": func(w *world, h vfs.Handle) {
			f := w.open(h, vfs.OpenRead|vfs.OpenWrite)
			f.Close()
			if !w.fs.OpenToWrite(h) {
				w.Error("a file with unsynced data is closed")
			}
			_, err := w.fs.Commit(w.op, h, 0, 0)
			w.ok(err, "Commit")
		},
		"commit without an open": func(w *world, h vfs.Handle) {
			_, err := w.fs.Commit(w.op, h, 0, 0)
			w.ok(err, "Commit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, local.Config{})
			t.Cleanup(w.fs.StopSweeper())
			h := w.create(w.fs.Root(), "program")
			w.ok(w.write(h, "#!/bin/true\n"), "Write")
			w.ok(os.Chmod(w.path("program"), 0o755), "chmod")
			do(w, h)
			await.Until(t, "the program can be executed", func() bool {
				err := exec.Command(w.path("program")).Run()
				if err != nil && !errors.Is(err, unix.ETXTBSY) {
					t.Fatal(err)
				}
				return err == nil
			})
		})
	}
}

// With some 1,000,000 descriptors for files, which the limit of the unit allows (LimitNOFILE=), a client
// address can have 100,000 files open in one of fifty exports. It may have 21/32 of the files that the
// export's file system can have open (ulb/nfs/state).
func TestOneClientCanOpenVeryManyFiles(t *testing.T) {
	budget := local.NewDescriptors(1_000_000)
	var w *world
	for range 50 {
		w = newWorld(t, local.Config{Root: t.TempDir(), Descriptors: budget})
	}
	if _, most := w.fs.OpenFiles(); most/32*21 < 100_000 {
		t.Errorf("a client address can have %d files open", most/32*21)
	}
}
