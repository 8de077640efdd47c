package billy

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// errAlone is what a step of a call that only looks returns when it has something
// new to note of the files: FS.look then makes the call again, as the only one.
var errAlone = errors.New("billy: the call has to be the only one")

// look makes a call that changes nothing in the file system: beside other such
// calls if it learns nothing new about the files, and beside the reading of data
// in any case. do may run twice. Outside of itself it sets only results.
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

// alter makes a call in which do may change the object of a handle.
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

// The program's code may panic: what is deferred leaves the FS fit for the next
// call, and package rpc answers this one.

func (f *FS) beside(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return do()
}

// exclusively makes a call while no other call is running, but, without quiet,
// the reading of data.
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

// within has do change the object of a handle, and tells the change. What was done was
// done, whether it can be told or not.
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

// at calls the program's code with the path of n, or of a name in the directory n,
// and makes its errors the seam's. Where n is gone, the error is ESTALE.
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
