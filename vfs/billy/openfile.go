package billy

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An openFile is a node's. It stays open between calls, because billy file
// systems may do a great deal at an Open and a Close, and is closed only while
// no other call is running.
type openFile struct {
	gobilly.File
	read, write bool
	dirty       bool          // written and not synced
	used        atomic.Uint64 // FS.uses at its last use
}

// file returns n's open file, good for reading, for writing where write is set.
func (f *FS) file(n *node, write bool) (*openFile, error) {
	if o := n.open; o != nil && (write && o.write || !write && o.read) {
		o.used.Store(f.uses.Add(1))
		return o, nil
	}
	if !f.alone {
		return nil, errAlone
	}
	flag := os.O_RDONLY
	if write {
		flag = f.forWriting()
	}
	// What was open for the other is closed first: a file system may allow
	// one at a time, and shows what was written only then.
	f.shut(n)
	err := f.at(n, "", func(path string) error {
		file, err := f.bfs.OpenFile(path, flag, 0)
		if err == nil {
			f.keep(n, file, flag)
		}
		return err
	})
	return n.open, err
}

// forWriting is the flag to open a file for writing with: for reading too, if
// the file system can.
func (f *FS) forWriting() int {
	if gobilly.CapabilityCheck(f.bfs, gobilly.ReadAndWriteCapability) {
		return os.O_RDWR
	}
	return os.O_WRONLY
}

// keep keeps n's file open, which was opened with flag. Of too many files the
// one that was not used for the longest time is closed.
func (f *FS) keep(n *node, file gobilly.File, flag int) {
	n.open = &openFile{File: file, read: flag != os.O_WRONLY, write: flag != os.O_RDONLY}
	n.open.used.Store(f.uses.Add(1))
	f.opened = append(f.opened, n)
	if len(f.opened) > f.opt.OpenFiles {
		f.shut(slices.MinFunc(f.opened, func(a, b *node) int { return cmp.Compare(a.open.used.Load(), b.open.used.Load()) }))
	}
}

// shut closes n's file, if one is open.
func (f *FS) shut(n *node) error {
	o := n.open
	if o == nil {
		return nil
	}
	n.open = nil
	f.opened = slices.DeleteFunc(f.opened, func(m *node) bool { return m == n })
	err := f.call(o.Close)
	if err != nil && o.dirty {
		f.verifier.Add(1)
	}
	return err
}

// shutAll closes every open file.
func (f *FS) shutAll() (err error) {
	for len(f.opened) > 0 {
		err = cmp.Or(f.shut(f.opened[0]), err)
	}
	return err
}

// stabilise makes the data of n as stable as can be, through its open file, and
// says how stable that is.
func (f *FS) stabilise(n *node) (stable vfs.Stability, err error) {
	o := n.open
	o.dirty = false
	if s, ok := o.File.(interface{ Sync() error }); ok {
		stable, err = vfs.FileSync, f.call(s.Sync)
	} else if f.opt.Sync != nil {
		stable, err = vfs.FileSync, f.call(func() error { return f.opt.Sync(o.File) })
	} else {
		err = f.shut(n) // there is no other way
	}
	if err != nil {
		f.verifier.Add(1)
		return vfs.Unstable, err
	}
	return stable, nil
}
