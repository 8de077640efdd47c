package billy

import (
	"errors"
	"runtime/debug"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A step of a call that only looks returns errAlone when it has something new to
// note, and errQuiet when it has to close a file that was written or is being
// read: FS.look then makes the call again, by itself.
var (
	errAlone = errors.New("billy: the call has to be the only one")
	errQuiet = errors.New("billy: the call has to be the only one, with no data being read")
)

// look makes a call that changes nothing in the file system: beside other such
// calls if it learns nothing new about the files. do may run several times.
// Outside of itself it sets only results.
func (f *FS) look(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	err := f.beside(do)
	if err == errAlone {
		err = f.exclusively(false, do)
	}
	if err == errQuiet {
		err = f.exclusively(true, do)
	}
	return err
}

// alterAt makes a call in which do changes the object of a handle.
func (f *FS) alterAt(op *vfs.Op, h vfs.Handle, ch *vfs.Change, do func(n *node) error) error {
	return f.alter(op, func() error { return f.within(h, ch, do) })
}

// alter makes a call that may change something in the file system.
func (f *FS) alter(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	return f.exclusively(true, do)
}

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
	f.alone, f.quiet = true, quiet
	defer func() { f.alone, f.quiet = false, false }()
	return do()
}

// call calls the program's code. Its errors become the seam's; where it panics,
// the call fails with EIO and the server goes on. The memory file systems of
// go-billy and go-nfs are known to panic at a Create in a directory that was
// renamed while it was empty.
func (f *FS) call(do func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			err = errno(err)
			return
		}
		f.panics.Add(1)
		if f.opt.Panicked != nil {
			f.opt.Panicked(v, debug.Stack())
		}
		err = syscall.EIO
	}()
	return do()
}

// at calls the program's code with the path of n, or of a name in the directory
// n. Where n is gone, the error is ESTALE.
func (f *FS) at(n *node, name string, do func(path string) error) error {
	path, err := f.components(n)
	if err != nil {
		return err
	}
	if name != "" {
		path = append(path, name)
	}
	return f.call(func() error { return do(f.bfs.Join(path...)) })
}

// at2 is at with two paths.
func (f *FS) at2(n *node, name string, m *node, other string, do func(path, path2 string) error) error {
	return f.at(n, name, func(path string) error {
		return f.at(m, other, func(path2 string) error { return do(path, path2) })
	})
}

// Panics is how often the file system panicked.
func (f *FS) Panics() uint64 { return f.panics.Load() }
