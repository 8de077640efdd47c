package local

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A rememberedList is the beginning of the kernel's listing of a directory, in a dirMemory. While
// the directory has the Change of the dirMemory, no entry has been added, removed or moved since. A
// listing never shows a half-made change, because the kernel makes it wait until a running change of
// the directory ends. Attributes of entries are read anew each time.
type rememberedList struct {
	// entries only grows: a listing that has a slice of it may read on without the lock.
	entries []listedName
	whole   bool // true if the list is complete
	// The keys of ends are the cookies after which a listing may continue. Each value is the number
	// of entries up to and including the entry with this cookie.
	ends map[uint64]int
}

// A listedName is an entry in a rememberedList.
type listedName struct {
	name        []byte
	cookie, ino uint64
	handle      vfs.Handle
}

// unknownPlace stands for the position of a listing in the remembered list, if the listing
// continues from a cookie that the list does not have.
const unknownPlace = -1

// listFrom returns the remembered entries after cookie, whether they reach to the end of the
// directory (whole), and the number of entries before them (at). The caller has just read d's
// attributes.
func (d *node) listFrom(cookie uint64) (entries []listedName, whole bool, at int) {
	m := &d.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	r, still := &m.list, d.inode.version.still(m.change)
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

// add appends e, whose file is h, to the list, and returns the number of entries up to and including
// e. The last argument is the number of entries before e; if the list has more entries than that, it
// has e already. If m is about an earlier Change of the directory than l, add empties m if e is the
// directory's first entry. Otherwise the list gets no entry, and add returns unknownPlace. It also
// does so if l.settled is not set, or if a limit of names is reached.
func (m *dirMemory) add(l *listing, e *vfs.DirEntry, h vfs.Handle, at int) int {
	if at == unknownPlace || !l.settled {
		return unknownPlace
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, all := &m.list, &l.fs.stats.names
	if at == 0 {
		m.renewLocked(l.looks.change, all)
	}
	switch {
	case m.change != l.looks.change || at > len(r.entries):
		return unknownPlace
	case at < len(r.entries):
		return at + 1
	case at >= maxDirNames || all.Load() >= maxAllNames:
		return unknownPlace
	}
	all.Add(1)
	r.entries = append(r.entries, listedName{slices.Clone(e.Name), e.Cookie, e.FileID, h})
	return at + 1
}

// ended records the position at which a listing stopped, as the number of entries before it (the
// argument at). The client may continue from there with cookie. eof is true if the listing reached
// the end of the directory; then ended only records whether the list is complete.
func (m *dirMemory) ended(change, cookie uint64, at int, eof bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.list
	if at == unknownPlace || m.change != change || at > len(r.entries) {
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
