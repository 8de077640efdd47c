package billy

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// errAlone is the result of a step of a read-only call that has to record something new about the
// files. FS.look then makes the call again while no other call runs.
var errAlone = errors.New("billy: the call has to be the only one")

// look makes a call that changes nothing in the file system. It runs beside other such calls and
// beside reads of data. If it has to record something new about the files, it runs again, beside
// reads of data alone. So do may run twice; it sets nothing but results.
func (f *FS) look(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	err := f.beside(do)
	if err == errAlone {
		err = f.exclusively(false, do)
	}
	return err
}

// alter makes a call in which do may change the file of a handle.
func (f *FS) alter(op *vfs.Op, h vfs.Handle, ch *vfs.Change, do func(n *node) error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	return f.exclusively(true, func() error {
		return f.within(h, ch, func(n *node) error {
			if f.readOnly {
				return syscall.EROFS
			}
			return do(n)
		})
	})
}

// The program's code may panic. The deferred unlocks leave the FS ready for the next call, and
// package rpc answers this one.

func (f *FS) beside(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return do()
}

// exclusively makes a call while no other call runs. If quiet is false, reads of data may run
// beside it.
func (f *FS) exclusively(quiet bool, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if quiet {
		f.reading.Wait() // a read begins with mu held
	}
	f.alone = true
	defer func() { f.alone = false }()
	return do()
}

// get finds the node of a handle and looks at it.
func (f *FS) get(h vfs.Handle, a *vfs.Attr) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	*a, err = f.stat(n)
	return n, err
}

// within lets do change the file of a handle, and records the change in ch. If the look
// afterwards fails, the change still counts as made.
func (f *FS) within(h vfs.Handle, ch *vfs.Change, do func(n *node) error) error {
	n, err := f.get(h, &ch.Before)
	if err != nil {
		return err
	}
	ch.HasBefore = true
	err = do(n)
	if a, failed := f.stat(n); failed == nil {
		ch.After, ch.HasAfter, ch.Atomic = a, true, f.opt.Sole
	}
	return err
}

// at calls the program's code with the path of n, or of a name in the directory n, and converts
// its errors to those of vfs. If n is gone, the error is ESTALE.
func (f *FS) at(n *node, name string, do func(path string) error) error {
	path, err := f.components(n)
	if err != nil {
		return err
	}
	if name != "" {
		path = append(path, name)
	}
	return errno(do(f.bfs.Join(path...)))
}

// at2 is at with two paths.
func (f *FS) at2(n *node, name string, m *node, other string, do func(path, path2 string) error) error {
	return f.at(n, name, func(path string) error {
		return f.at(m, other, func(path2 string) error { return do(path, path2) })
	})
}
