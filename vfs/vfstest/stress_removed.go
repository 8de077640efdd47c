package vfstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var stressRemovedTests = []Test{
	{"stress/renames in a directory that is removed", testRenamesInRemoved},
	{"stress/handles of removed files", testRemovedHandles},
}

// hang is the time after which a test takes a group of calls for hung.
const hang = 2 * time.Minute

// finishes calls the function do in n goroutines at once, like parallel. If they do not end, it fails
// the test and shows where they wait.
func (x *fixture) finishes(n int, do func(i int)) {
	x.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		parallel(n, do)
	}()
	limit := time.NewTimer(hang)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		stacks := make([]byte, 1<<20)
		x.Fatalf("calls hang:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// Renames within a directory end even if the directory is removed at that moment.
func testRenamesInRemoved(x *fixture) {
	x.concurrent()
	const renamers = 3
	for round := range 120 {
		d := x.self.mkdir(x.dir, "d", 0o755)
		var gone atomic.Bool
		x.finishes(1+renamers, func(i int) {
			u := x.as(x.self.op.Cred)
			if i > 0 {
				for more := 300; more > 0; more-- {
					if gone.Load() {
						more = 1
					}
					err := u.rename(d, "a", d, "b")
					if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ESTALE) {
						x.Errorf("Rename: %v", err)
						return
					}
				}
				return
			}
			for range round % 40 {
				runtime.Gosched()
			}
			if err := u.rmdir(x.dir, "d"); err != nil {
				x.Errorf("Rmdir: %v", err)
			}
			gone.Store(true)
		})
	}
}

// Calls of all kinds use files and directories while others remove these, and go on to use them then.
// All calls end, no call gets an error of the server's own making, and no Change falls.
func testRemovedHandles(x *fixture) {
	x.concurrent()
	pool := &handlePool{dir: x.dir}
	x.finishes(8, func(i int) {
		s := &removedStress{x: x, op: &vfs.Op{Cred: x.self.op.Cred}, random: rand.New(rand.NewPCG(uint64(i), 11)), pool: pool}
		defer s.close()
		for range 1500 {
			s.op.Try = !x.try && s.random.IntN(5) == 0
			what, err := s.step()
			for _, own := range []error{syscall.EBADF, syscall.EIO, syscall.EFAULT} {
				if errors.Is(err, own) {
					x.Errorf("%s: %v", what, err)
				}
			}
		}
	})
}

// A handlePool has handles of files that exist, and of files that existed.
type handlePool struct {
	dir     vfs.Handle
	mu      sync.Mutex
	handles []vfs.Handle
	highest sync.Map // from vfs.Handle to *atomic.Uint64, the highest Change that was returned
}

func (p *handlePool) add(random *rand.Rand, h vfs.Handle) {
	const most = 40
	if h.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.handles) < most {
		p.handles = append(p.handles, h)
		return
	}
	p.handles[random.IntN(most)] = h
}

func (p *handlePool) pick(random *rand.Rand) vfs.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.handles) == 0 || random.IntN(4) == 0 {
		return p.dir
	}
	return p.handles[random.IntN(len(p.handles))]
}

// changeOf returns the highest Change of h so far.
func (p *handlePool) changeOf(h vfs.Handle) *atomic.Uint64 {
	c, _ := p.highest.LoadOrStore(h, new(atomic.Uint64))
	return c.(*atomic.Uint64)
}

// A removedStress is one goroutine of testRemovedHandles.
type removedStress struct {
	x      *fixture
	op     *vfs.Op
	random *rand.Rand
	pool   *handlePool
	files  []vfs.File
}

func (s *removedStress) close() {
	for _, f := range s.files {
		f.Close()
	}
}

// looked checks a Change of h against the highest one before the call.
func (s *removedStress) looked(h vfs.Handle, before, change uint64) {
	if change < before {
		s.x.Errorf("the Change of %v fell from %d to %d", h, before, change)
	}
	for c := s.pool.changeOf(h); ; {
		if was := c.Load(); change <= was || c.CompareAndSwap(was, change) {
			return
		}
	}
}

// step makes one call and returns its name.
func (s *removedStress) step() (string, error) {
	fs, op := s.x.fs, s.op
	h, other := s.pool.pick(s.random), s.pool.pick(s.random)
	name, otherName := fmt.Appendf(nil, "n%d", s.random.IntN(4)), fmt.Appendf(nil, "n%d", s.random.IntN(4))
	var a vfs.Attr
	switch s.random.IntN(20) {
	case 0, 1:
		o, _, err := fs.Create(op, h, name, &vfs.CreateHow{Mode: vfs.CreateMode(s.random.IntN(2)), Attr: withMode(0o644)})
		s.pool.add(s.random, o.Handle)
		return "Create", err
	case 2, 3:
		attr := withMode(0o755)
		o, _, err := fs.Mkdir(op, h, name, &attr)
		s.pool.add(s.random, o.Handle)
		return "Mkdir", err
	case 4, 5:
		_, err := fs.Remove(op, h, name)
		return "Remove", err
	case 6:
		_, err := fs.Rmdir(op, h, name)
		return "Rmdir", err
	case 7, 8:
		if s.random.IntN(2) == 0 {
			other = h
		}
		_, _, err := fs.Rename(op, h, name, other, otherName)
		return "Rename", err
	case 9:
		_, err := fs.Link(op, h, other, name, &a)
		return "Link", err
	case 10:
		_, _, _, err := fs.Write(op, h, uint64(s.random.IntN(9000)), [][]byte{name, otherName}, vfs.Stability(s.random.IntN(3)))
		return "Write", err
	case 11:
		_, err := fs.SetAttr(op, h, &vfs.SetAttr{SetSize: true, Size: uint64(s.random.IntN(9000))}, nil)
		return "SetAttr of the size", err
	case 12:
		attr := withMode(0o755)
		_, err := fs.SetAttr(op, h, &attr, nil)
		return "SetAttr of the mode", err
	case 13:
		_, err := fs.ReadDir(op, h, 0, true, &a, func(*vfs.DirEntry) bool { return s.random.IntN(10) > 0 })
		return "ReadDir", err
	case 14:
		before := s.pool.changeOf(h).Load()
		err := fs.GetAttr(op, h, &a)
		if err == nil {
			s.looked(h, before, a.Change)
		}
		return "GetAttr", err
	case 15:
		before := s.pool.changeOf(h).Load()
		_, _, err := fs.Read(op, h, 0, make([]byte, 4096), &a)
		if err == nil {
			s.looked(h, before, a.Change)
		}
		return "Read", err
	case 16:
		_, err := fs.Commit(op, h, 0, 0)
		return "Commit", err
	case 17:
		o, err := fs.Lookup(op, h, name, &a)
		s.pool.add(s.random, o.Handle)
		return "Lookup", err
	case 18:
		return "Open", s.open(h)
	}
	return "a call of a File", s.useFile()
}

// open opens h, if the file system has open files, and closes the oldest of several Files.
func (s *removedStress) open(h vfs.Handle) error {
	opener, ok := vfs.As[vfs.Opener](s.x.raw)
	if !ok {
		return nil
	}
	f, err := opener.Open(s.op, h, vfs.OpenRead|vfs.OpenWrite)
	if err != nil {
		return err
	}
	if s.files = append(s.files, f); len(s.files) > 4 {
		s.files[0].Close()
		s.files = s.files[1:]
	}
	return nil
}

// useFile changes an open file in one of the ways that need a File.
func (s *removedStress) useFile() error {
	if len(s.files) < 2 {
		return nil
	}
	f := s.files[0]
	switch s.random.IntN(3) {
	case 0:
		if c, ok := vfs.As[vfs.Copier](s.x.raw); ok {
			_, err := c.CopyRange(s.op, s.files[1], 0, f, uint64(s.random.IntN(9000)), 3000)
			return err
		}
	case 1:
		if sp, ok := vfs.As[vfs.Sparse](s.x.raw); ok {
			return sp.Allocate(s.op, f, 0, 8192)
		}
	}
	_, err := f.SetSize(s.op, uint64(s.random.IntN(9000)))
	return err
}
