package local

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A rememberedList is how the kernel listed a directory, from the start on, while it was in the
// state that change names: no entry can have come, gone or moved since. A listing waits for a
// change of the directory that runs, so that it shows what the ctime says. What the entries look
// like is asked for each time.
type rememberedList struct {
	mu     sync.Mutex
	change uint64
	// entries are only ever added to: a listing that has them reads on without mu.
	entries []listedName
	whole   bool // there are no more
	// ends has, by the cookie that a caller goes on from, how many entries come
	// before that.
	ends map[uint64]int
}

// A listedName is an entry in a rememberedList.
type listedName struct {
	name   []byte
	cookie uint64
	knownName
}

// unknownPlace is where in a list a listing stands that went on from a cookie of
// which the list knows nothing.
const unknownPlace = -1

// listFrom returns what comes behind cookie in d, which was just looked at, and how many entries
// come before that.
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

// add adds the entry that has at others before it, unless it is there already, and
// returns the next one's place. It may be told of entries only where l.settled.
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

// ended: the caller took the entries before at, and goes on from cookie. eof: there
// are no more.
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
