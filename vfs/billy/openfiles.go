package billy

import (
	"container/list"
	"os"
	"sync"

	gobilly "github.com/go-git/go-billy/v5"
)

// openFiles keeps files open between calls: billy file systems may do a great
// deal at an Open and a Close.
type openFiles struct {
	mu    sync.Mutex
	limit int
	files map[*node]*openFile
	idle  list.List // of *openFile, the longest idle in front
	// condemned are to be closed by whoever comes next.
	condemned []*openFile
	// guard stands before a Close.
	guard *guard
	// lost is called where a close failed and unsynced data went with it.
	lost func()
}

// An openFile is a node's.
type openFile struct {
	node        *node
	file        gobilly.File
	read, write bool
	// Both under node.io.
	closed bool
	dirty  bool // written and not synced
	// The rest under openFiles.mu.
	uses  int
	dead  bool // to be closed with its last use
	place *list.Element
}

// get returns n's open file, good for reading, for writing where write is set.
// The caller holds n.io and puts the file back.
func (s *openFiles) get(f *FS, n *node, path string, write bool) (*openFile, error) {
	s.mu.Lock()
	o := s.files[n]
	if o != nil && (write && o.write || !write && o.read) {
		s.use(o)
		s.mu.Unlock()
		return o, nil
	}
	s.mu.Unlock()
	flag, read := os.O_RDONLY, true
	if write {
		flag = os.O_RDWR
		if !gobilly.CapabilityCheck(f.fs, gobilly.ReadAndWriteCapability) {
			flag, read = os.O_WRONLY, false
		}
	}
	// What was open for the other is closed first: a file system may allow
	// one at a time, and shows what was written only then.
	s.drop(n)
	file, err := f.fs.OpenFile(path, flag, 0)
	if err != nil {
		return nil, errno(err)
	}
	return s.add(&openFile{node: n, file: file, read: read, write: write}), nil
}

// add enters a file just opened, in use.
func (s *openFiles) add(o *openFile) *openFile {
	o.uses = 1
	s.mu.Lock()
	if s.files == nil {
		s.files = make(map[*node]*openFile)
	}
	s.condemn(s.files[o.node]) // of one that came at the same time
	s.files[o.node] = o
	for len(s.files) > s.limit && s.idle.Len() > 0 {
		s.condemn(s.idle.Front().Value.(*openFile))
	}
	s.reap()
	return o
}

func (s *openFiles) use(o *openFile) {
	if o.uses++; o.place != nil {
		s.idle.Remove(o.place)
		o.place = nil
	}
}

// put gives back what get returned.
func (s *openFiles) put(o *openFile) {
	s.mu.Lock()
	if o.uses--; o.uses == 0 {
		if o.dead {
			s.condemned = append(s.condemned, o)
		} else {
			o.place = s.idle.PushBack(o)
		}
	}
	s.reap()
}

// condemn takes o out; it is closed by the next reap, or with its last use.
// mu is held.
func (s *openFiles) condemn(o *openFile) {
	if o == nil || o.dead {
		return
	}
	o.dead = true
	if s.files[o.node] == o {
		delete(s.files, o.node)
	}
	if o.place != nil {
		s.idle.Remove(o.place)
		o.place = nil
		s.condemned = append(s.condemned, o)
	}
}

// reap lets go of mu and closes what is condemned and in nobody's use.
func (s *openFiles) reap() (err error) {
	condemned := s.condemned
	s.condemned = nil
	s.mu.Unlock()
	for _, o := range condemned {
		if o.closed {
			continue
		}
		o.closed = true
		if e := s.guard.call(o.file.Close); e != nil {
			err = e
			if o.dirty {
				s.lost()
			}
		}
	}
	return err
}

// forget condemns n's file; it calls nothing.
func (s *openFiles) forget(n *node) {
	s.mu.Lock()
	s.condemn(s.files[n])
	s.mu.Unlock()
}

// drop closes n's file, now or with its last use.
func (s *openFiles) drop(n *node) {
	s.mu.Lock()
	s.condemn(s.files[n])
	s.reap()
}

// dropAll is drop for all.
func (s *openFiles) dropAll() error {
	s.mu.Lock()
	for _, o := range s.files {
		s.condemn(o)
	}
	return s.reap()
}

// end closes o, which the caller uses, and nobody else at this moment.
func (s *openFiles) end(o *openFile) error {
	s.mu.Lock()
	s.condemn(o)
	s.reap()
	o.closed = true
	return s.guard.call(o.file.Close)
}
