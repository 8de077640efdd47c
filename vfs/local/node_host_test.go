package local

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A share is the nodeHost and the disk of its own nodes: its files are those of the model, and its clock is the model's.

var (
	_ nodeHost = (*share)(nil)
	_ disk     = (*share)(nil)
)

func (s *share) now() time.Time { return s.m.clock }

func (s *share) fstat(fd int) (unix.Stat_t, error) {
	f := s.m.fds[fd]
	if f == nil {
		s.m.errorf("fstat of the closed descriptor %d", fd)
	}
	if s.m.broken {
		return unix.Stat_t{}, syscall.EIO
	}
	return f.st, nil
}

func (s *share) close(n *node) {
	delete(s.writable, n)
	s.closeFD(n.fd)
}

func (s *share) closeFD(fd int) {
	if s.m.closed[fd] {
		s.m.errorf("descriptor %d is closed twice", fd)
	}
	s.m.closed[fd] = true
	delete(s.m.fds, fd)
}

const (
	modelNodes  = 5 // limit of nodes that no File needs
	modelPinned = 3
	modelMany   = 2
	modelMost   = 4
)

func (s *share) maxNodes() int64 { return int64(modelNodes + s.pinned) }

func (s *share) pin() error {
	if s.pinned == modelPinned {
		return vfs.ErrDelay
	}
	s.pinned++
	return nil
}

func (s *share) unpin() { s.pinned-- }

func (s *share) syncNode(n *node, _ *durability) (SyncCall, error) {
	f := s.m.fds[n.fd]
	told, open := s.writable[n]
	if !open {
		told = f.errs // a descriptor that is opened now tells of no earlier failure
	}
	if s.m.fails {
		s.m.fails = false
		f.lose()
	} else {
		f.store()
	}
	if do := s.m.during; do != nil {
		s.m.during = nil
		do()
	}
	if f.errs == told {
		return Fsync, nil
	}
	if open {
		s.writable[n] = f.errs
	}
	return Fsync, syscall.EIO
}

func (s *share) syncWriter(n *node, d *durability) error {
	if _, open := s.writable[n]; !open {
		return nil
	}
	_, err := s.syncNode(n, d)
	return err
}

func (s *share) closeIdle(n *node) {
	if !n.unsynced.listed.Load() {
		delete(s.writable, n)
	}
}

func (s *share) manyUnsynced() int64 { return modelMany }
func (s *share) mostUnsynced() int64 { return modelMost }

func (f *modelFile) store() {
	for w := range f.pending {
		f.stable[w] = true
	}
	clear(f.pending)
}

func (f *modelFile) lose() {
	if len(f.pending) > 0 {
		f.errs++
	}
	clear(f.pending)
}
