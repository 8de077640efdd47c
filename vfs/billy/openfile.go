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
// systems may do a great deal at an Open and a Close.
type openFile struct {
	gobilly.File
	node  *node
	flag  int           // it was opened with: O_RDONLY, O_WRONLY or O_RDWR
	dirty bool          // written and not synced
	used  atomic.Uint64 // FS.uses at its last use
	reads atomic.Int32  // in progress; they begin with FS.mu held
}

// file returns n's open file, good for reading, for writing where write is set.
func (f *FS) file(n *node, write bool) (*openFile, error) {
	flag, useless := os.O_RDONLY, os.O_WRONLY
	if write {
		flag, useless = f.forWriting(), os.O_RDONLY
	}
	o := n.open
	switch {
	case o != nil && o.flag != useless:
		o.used.Store(f.uses.Add(1))
		return o, nil
	case !f.alone:
		return nil, errAlone
	case o != nil && !f.mayShut(o):
		return nil, errQuiet
	}
	// What is open for the other is closed first: a file system may allow one
	// at a time, and shows what was written only then.
	f.shut(o)
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
	n.open = &openFile{File: file, node: n, flag: flag}
	n.open.used.Store(f.uses.Add(1))
	f.opened = append(f.opened, n.open)
	if len(f.opened) <= f.opt.OpenFiles {
		return
	}
	oldest := n.open
	for _, o := range f.opened {
		if o.used.Load() < oldest.used.Load() && f.mayShut(o) {
			oldest = o
		}
	}
	if oldest != n.open {
		f.shut(oldest)
	}
}

// mayShut says that o can be closed now: it is not being read, and what was
// written to it, which the file system may keep until the close, changes
// nothing beside a read.
func (f *FS) mayShut(o *openFile) bool { return f.quiet || o.reads.Load() == 0 && !o.dirty }

// shut closes o, where it is not nil and may be shut. A file that may not, whose
// node is gone, is one of too many soon.
func (f *FS) shut(o *openFile) error {
	if o == nil || !f.mayShut(o) {
		return nil
	}
	o.node.open = nil
	f.opened = slices.DeleteFunc(f.opened, func(p *openFile) bool { return p == o })
	err := f.call(o.Close)
	if err != nil && o.dirty {
		f.verifier.Add(1)
	}
	return err
}

// shutAll closes every open file; no data is being read.
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
		err = f.shut(o) // there is no other way
	}
	if err != nil {
		f.verifier.Add(1)
		return vfs.Unstable, err
	}
	return stable, nil
}
