package local

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A rememberedList is the beginning of the kernel's listing of a directory, read while the
// directory's Change was change. If the directory still has this Change, no entry has come, gone
// or moved since. The kernel makes a listing wait for a running change of the directory, so that
// the listing agrees with the ctime. Attributes of entries are read anew each time.
type rememberedList struct {
	mu     sync.Mutex
	change uint64
	// entries only grows: a listing that has a slice of it may read on without mu.
	entries []listedName
	whole   bool // the list is complete
	// ends maps each cookie from which a caller may continue to the number of entries before that
	// point.
	ends map[uint64]int
}

// A listedName is an entry in a rememberedList.
type listedName struct {
	name   []byte
	cookie uint64
	knownName
}

// unknownPlace is the position of a listing that continued from a cookie which the list does not
// know.
const unknownPlace = -1

// listFrom returns the remembered entries after cookie and the number of entries before them. The
// caller has just looked at d.
func (d *node) listFrom(cookie uint64) (entries []listedName, whole bool, at int) {
	r := &d.list
	r.mu.Lock()
	defer r.mu.Unlock()
	still := d.inode.version.still(r.change)
	at, ok := r.ends[cookie]
	if cookie == dotDotCookie {
		at, ok = 0, true
	} else if !still || !ok {
		return nil, false, unknownPlace
	}
	if !still {
		return nil, false, at
	}
	return r.entries[at:len(r.entries):len(r.entries)], r.whole, at
}

// add appends an entry at position at, unless the list has it already, and returns the next
// position. It adds nothing unless l.settled is set.
func (r *rememberedList) add(l *listing, e *vfs.DirEntry, known knownName, at int) int {
	if at == unknownPlace || !l.settled {
		return unknownPlace
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &l.fs.stats.names
	if r.change != l.looks.change && at == 0 {
		all.Add(-int64(len(r.entries)))
		r.change, r.entries, r.whole, r.ends = l.looks.change, nil, false, nil
	}
	switch {
	case r.change != l.looks.change || at > len(r.entries):
		return unknownPlace
	case at < len(r.entries):
		return at + 1
	case at >= maxDirNames || all.Load() >= maxAllNames:
		return unknownPlace
	}
	all.Add(1)
	r.entries = append(r.entries, listedName{append([]byte(nil), e.Name...), e.Cookie, known})
	return at + 1
}

// ended notes that a listing stopped at position at; the caller will continue from cookie. eof:
// the directory ends there.
func (r *rememberedList) ended(change, cookie uint64, at int, eof bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at == unknownPlace || r.change != change || at > len(r.entries) {
		return
	}
	if eof {
		r.whole = at == len(r.entries)
		return
	}
	if r.ends == nil {
		r.ends = make(map[uint64]int)
	}
	r.ends[cookie] = at
}

func (fs *FS) forgetList(d *node) {
	r := &d.list
	r.mu.Lock()
	fs.stats.names.Add(-int64(len(r.entries)))
	r.entries, r.ends, r.whole, r.change = nil, nil, false, 0
	r.mu.Unlock()
}
