package billy

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// errAlone is returned by a step of a call that only looks, when the step has
// something new to note: FS.look then makes the call again with FS.mu held
// exclusively.
var errAlone = errors.New("billy: the call has to have the file system to itself")

// look makes a call that changes nothing in the file system: beside other such
// calls, or by itself if it learns something new about the files. do may run
// several times. Outside of itself it sets only results.
func (f *FS) look(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	for {
		if err := f.beside(do); err != errAlone {
			return err
		}
		if err := f.alter(op, do); err != errAlone {
			return err
		}
	}
}

func (f *FS) beside(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return do()
}

// alter makes a call while no other call is running.
func (f *FS) alter(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = true
	defer func() { f.alone = false }()
	return do()
}
