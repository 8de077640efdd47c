package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var stressTests = []Test{
	{"stress/one wins a name", testOneWins},
	{"stress/writers of one file", testWriters},
	{"stress/directories into each other", testDirectoryMoves},
	{"stress/everything at once", testStress},
}

// parallel calls the function do in n goroutines at once, with i from 0 to n-1, and waits for
// them.
func parallel(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func testOneWins(x *fixture) {
	u := x.self
	x.concurrent()
	for round := range 50 {
		name := fmt.Appendf(nil, "f%d", round)
		var made, removed, exclusive atomic.Int32
		parallel(8, func(i int) {
			if _, _, err := x.fs.Create(u.op, x.dir, name, &vfs.CreateHow{Mode: vfs.Guarded}); err == nil {
				made.Add(1)
			} else if !errors.Is(err, syscall.EEXIST) {
				x.Errorf("Create: %v", err)
			}
		})
		parallel(8, func(i int) {
			if _, err := x.fs.Remove(u.op, x.dir, name); err == nil {
				removed.Add(1)
			} else if !errors.Is(err, syscall.ENOENT) {
				x.Errorf("Remove: %v", err)
			}
		})
		if made.Load() != 1 || removed.Load() != 1 {
			x.Errorf("of eight, %d made the file, %d removed it", made.Load(), removed.Load())
		}
		if x.opt.NoExclusive {
			continue
		}
		parallel(8, func(i int) {
			if _, err := u.exclusive(x.dir, string(name), byte(i/2)); err == nil {
				exclusive.Add(1)
			} else if !errors.Is(err, syscall.EEXIST) {
				x.Errorf("exclusive Create: %v", err)
			}
		})
		// Two goroutines use each verifier. One goroutine makes the file. The other goroutine with
		// the same verifier repeats that Create and succeeds as well.
		if exclusive.Load() != 2 {
			x.Errorf("of eight with four verifiers, %d made the file", exclusive.Load())
		}
		x.ok(u.remove(x.dir, string(name)), "Remove")
	}
}

// Writers of separate parts of a file do not change each other's parts, and Change never
// decreases.
func testWriters(x *fixture) {
	u := x.self
	x.concurrent()
	h := u.create(x.dir, "f", 0o644)
	const writers, part, rounds = 6, 10_000, 20
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		var last vfs.Attr
		for {
			var a vfs.Attr
			if err := x.fs.GetAttr(u.op, h, &a); err != nil {
				x.Errorf("GetAttr: %v", err)
			}
			if a.Change < last.Change || a.Size < last.Size {
				x.Errorf("a file went from %+v to %+v", last, a)
			}
			last = a
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	parallel(writers, func(i int) {
		for r := range rounds {
			p := bytes.Repeat([]byte{byte('a' + i + r)}, part)
			n, _, ch, err := x.fs.Write(u.op, h, uint64(i*part), [][]byte{p[:part/3], p[part/3:]}, vfs.Unstable)
			if n != part || err != nil {
				x.Errorf("Write: %d, %v", n, err)
			}
			if ch.Atomic && ch.After.Change <= ch.Before.Change {
				x.Errorf("the change counter went from %d to %d", ch.Before.Change, ch.After.Change)
			}
			buf := make([]byte, part)
			var a vfs.Attr
			if n, _, err := x.fs.Read(u.op, h, uint64(i*part), buf, &a); err != nil || n != part || !bytes.Equal(buf, p) {
				x.Errorf("a writer does not read what it wrote: %d, %v", n, err)
			}
			if r%5 == 0 {
				if _, err := x.fs.Commit(u.op, h, 0, 0); err != nil {
					x.Errorf("Commit: %v", err)
				}
			}
		}
	})
	close(stop)
	writing.Wait()
	var want []byte
	for i := range writers {
		want = append(want, bytes.Repeat([]byte{byte('a' + i + rounds - 1)}, part)...)
	}
	u.content(h, string(want))
}

// After concurrent moves of directories into each other, the directories still form a tree.
func testDirectoryMoves(x *fixture) {
	u := x.self
	x.concurrent()
	const dirs = 5
	hs := []vfs.Handle{x.dir}
	for i := range dirs {
		hs = append(hs, u.mkdir(x.dir, fmt.Sprint("d", i), 0o755))
	}
	parallel(6, func(i int) {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		for range 200 {
			name := fmt.Appendf(nil, "d%d", random.IntN(dirs))
			from, to := hs[random.IntN(len(hs))], hs[random.IntN(len(hs))]
			_, _, err := x.fs.Rename(u.op, from, name, to, name)
			switch {
			case err == nil, errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EINVAL),
				errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
			default:
				x.Errorf("Rename: %v", err)
			}
		}
	})
	if found := x.tree(x.dir, map[uint64]bool{}).dirs; found != dirs {
		x.Errorf("%d directories are left of %d", found, dirs)
	}
}

// A census holds the number of directories below a directory, and the number of names of other
// files.
type census struct{ dirs, names int }

// tree counts the directories and the other names below dir. It checks that the directories form a
// tree: every ".." is the parent, every link count is right, and no directory has two places.
func (x *fixture) tree(dir vfs.Handle, seen map[uint64]bool) (all census) {
	x.Helper()
	u := x.self
	a := u.attr(dir)
	if seen[a.FileID] {
		x.Fatalf("a directory is in two places")
	}
	seen[a.FileID] = true
	subs := uint32(0)
	for name, id := range u.names(dir) {
		o := u.lookup(dir, name)
		b := u.attr(o.Handle)
		if b.FileID != id {
			x.Errorf("%q is listed as %d, is %d", name, id, b.FileID)
		}
		if b.Type != vfs.Directory {
			all.names++
			continue
		}
		subs++
		if u.lookup(o.Handle, "..").Handle != dir {
			x.Errorf("the .. of %q is another directory", name)
		}
		below := x.tree(o.Handle, seen)
		all.dirs += 1 + below.dirs
		all.names += below.names
	}
	if a.Nlink > 1 && a.Nlink != 2+subs {
		x.Errorf("a directory with %d directories has %d links", subs, a.Nlink)
	}
	return all
}

// expected are the errors that calls of testStress may return.
var expected = []error{syscall.ENOENT, syscall.EEXIST, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY,
	syscall.EINVAL, syscall.ESTALE, syscall.EPERM}

func testStress(x *fixture) {
	u := x.self
	x.concurrent()
	dirs := []vfs.Handle{x.dir}
	for i := range 3 {
		dirs = append(dirs, u.mkdir(x.dir, fmt.Sprint("fixed", i), 0o755))
	}
	parallel(6, func(i int) {
		s := &stress{x: x, u: x.as(u.op.Cred), random: rand.New(rand.NewPCG(uint64(i), 7)), dirs: dirs}
		for range 400 {
			if err := s.step(); err != nil && !s.expected(err) {
				x.Errorf("in the middle of others: %v", err)
			}
		}
	})
	x.tree(x.dir, map[uint64]bool{})
	x.links(x.dir)
	x.empty(x.dir)
	if left := u.names(x.dir); len(left) != 0 {
		x.Errorf("left: %v", left)
	}
}

type stress struct {
	x      *fixture
	u      *user
	random *rand.Rand
	dirs   []vfs.Handle
}

func (s *stress) expected(err error) bool {
	for _, e := range expected {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *stress) step() error {
	fs, op := s.x.fs, s.u.op
	dir := s.dirs[s.random.IntN(len(s.dirs))]
	name := fmt.Appendf(nil, "n%d", s.random.IntN(6))
	var a vfs.Attr
	switch s.random.IntN(12) {
	case 0, 1:
		o, _, err := fs.Create(op, dir, name, &vfs.CreateHow{Attr: withMode(0o644)})
		if err != nil || o.Handle.IsZero() {
			return err
		}
		_, _, _, err = fs.Write(op, o.Handle, uint64(s.random.IntN(9000)), [][]byte{name, name}, vfs.Unstable)
		return err
	case 2:
		sa := withMode(0o755)
		_, _, err := fs.Mkdir(op, dir, name, &sa)
		return err
	case 3:
		_, err := fs.Remove(op, dir, name)
		return err
	case 4:
		_, err := fs.Rmdir(op, dir, name)
		return err
	case 5, 6:
		to := s.dirs[s.random.IntN(len(s.dirs))]
		_, _, err := fs.Rename(op, dir, name, to, fmt.Appendf(nil, "n%d", s.random.IntN(6)))
		return err
	case 7:
		if !s.x.info.HardLinks {
			return nil
		}
		o, err := fs.Lookup(op, dir, name, &a)
		if err != nil {
			return err
		}
		_, err = fs.Link(op, o.Handle, s.dirs[s.random.IntN(len(s.dirs))], fmt.Appendf(nil, "n%d", s.random.IntN(6)), &a)
		return err
	case 8:
		if !s.x.info.Symlinks {
			return nil
		}
		_, _, err := fs.Symlink(op, dir, name, []byte("text"), &vfs.SetAttr{})
		return err
	case 9:
		o, err := fs.Lookup(op, dir, name, &a)
		if err != nil {
			return err
		}
		_, err = fs.SetAttr(op, o.Handle, &vfs.SetAttr{SetSize: true, Size: 10}, nil)
		return err
	case 10:
		_, err := fs.ReadDir(op, dir, 0, true, &a, func(e *vfs.DirEntry) bool { return true })
		return err
	default:
		o, err := fs.Lookup(op, dir, name, &a)
		if err != nil {
			return err
		}
		_, _, err = fs.Read(op, o.Handle, 0, make([]byte, 100), &a)
		return err
	}
}

// links checks that the link count of every file below dir is the number of its names.
func (x *fixture) links(dir vfs.Handle) {
	x.Helper()
	count := map[uint64]uint32{}
	says := map[uint64]uint32{}
	var walk func(dir vfs.Handle)
	walk = func(dir vfs.Handle) {
		for name := range x.self.names(dir) {
			h := x.self.lookup(dir, name).Handle
			a := x.self.attr(h)
			if a.Type == vfs.Directory {
				walk(h)
				continue
			}
			count[a.FileID]++
			says[a.FileID] = a.Nlink
		}
	}
	walk(dir)
	for id, n := range count {
		if x.info.HardLinks && says[id] != n {
			x.Errorf("file %d has %d names and %d links", id, n, says[id])
		}
	}
}

// empty removes everything below dir.
func (x *fixture) empty(dir vfs.Handle) {
	x.Helper()
	for name := range x.self.names(dir) {
		h := x.self.lookup(dir, name).Handle
		if x.self.attr(h).Type == vfs.Directory {
			x.empty(h)
			x.ok(x.self.rmdir(dir, name), "Rmdir")
		} else {
			x.ok(x.self.remove(dir, name), "Remove")
		}
	}
}
