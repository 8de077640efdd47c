package billy

import (
	"os"
	"sync/atomic"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// openFiles are kept open between calls: billy file systems may do a great deal
// at an Open and a Close. A file is closed only while no other call is running.
type openFiles struct {
	nodes []*node
	uses  atomic.Uint64 // so far, of all files
}

// An openFile is a node's.
type openFile struct {
	gobilly.File
	read, write bool
	dirty       bool          // written and not synced
	used        atomic.Uint64 // openFiles.uses at its last use
}

// file returns n's open file, good for reading, for writing where write is set.
func (f *FS) file(n *node, write bool) (*openFile, error) {
	if o := n.open; o != nil && (write && o.write || !write && o.read) {
		o.used.Store(f.open.uses.Add(1))
		return o, nil
	}
	if !f.alone {
		return nil, errAlone
	}
	path, err := f.path(n)
	if err != nil {
		return nil, err
	}
	flag := os.O_RDONLY
	if write {
		flag = f.forWriting()
	}
	// What was open for the other is closed first: a file system may allow
	// one at a time, and shows what was written only then.
	f.shut(n)
	file, err := f.fs.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	return f.keep(n, file, flag), nil
}

// forWriting is the flag to open a file for writing with: for reading too, if
// the file system can.
func (f *FS) forWriting() int {
	if gobilly.CapabilityCheck(f.fs, gobilly.ReadAndWriteCapability) {
		return os.O_RDWR
	}
	return os.O_WRONLY
}

// keep keeps n's file, which was opened with flag. Of too many files the one
// that was not used for the longest time is closed.
func (f *FS) keep(n *node, file gobilly.File, flag int) *openFile {
	o := &openFile{File: file, read: flag != os.O_WRONLY, write: flag != os.O_RDONLY}
	o.used.Store(f.open.uses.Add(1))
	n.open = o
	f.open.nodes = append(f.open.nodes, n)
	if len(f.open.nodes) > f.opt.OpenFiles {
		oldest := n
		for _, m := range f.open.nodes {
			if m.open.used.Load() < oldest.open.used.Load() {
				oldest = m
			}
		}
		f.shut(oldest)
	}
	return o
}

// shut closes n's file, if one is open.
func (f *FS) shut(n *node) error {
	o := n.open
	if o == nil {
		return nil
	}
	n.open = nil
	f.open.forget(n)
	err := f.fs.call(o.Close)
	if err != nil && o.dirty {
		f.verifier.Add(1)
	}
	return err
}

func (s *openFiles) forget(n *node) {
	for i, m := range s.nodes {
		if m == n {
			last := len(s.nodes) - 1
			s.nodes[i], s.nodes[last] = s.nodes[last], nil
			s.nodes = s.nodes[:last]
			return
		}
	}
}

// closeAll closes every open file.
func (f *FS) closeAll() (err error) {
	for len(f.open.nodes) > 0 {
		if e := f.shut(f.open.nodes[0]); e != nil {
			err = e
		}
	}
	return err
}

// stabilise makes the data of n, whose file is o, as stable as can be and says
// how stable that is.
func (f *FS) stabilise(n *node, o *openFile) (stable vfs.Stability, err error) {
	o.dirty = false
	if s, ok := o.File.(interface{ Sync() error }); ok {
		stable, err = vfs.FileSync, f.fs.call(s.Sync)
	} else if f.opt.Sync != nil {
		stable, err = vfs.FileSync, f.fs.call(func() error { return f.opt.Sync(o.File) })
	} else {
		err = f.shut(n) // there is no other way
	}
	if err != nil {
		f.verifier.Add(1)
		return vfs.Unstable, err
	}
	return stable, nil
}
