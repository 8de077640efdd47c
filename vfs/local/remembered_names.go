package local

import (
	"sync"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rememberedNames are what names in a directory were found to be while its
// ctime was what it says: no name in it can have changed since. A younger ctime
// may be shared by a change still to come, and nothing is remembered by it
// (FS.namesAreOld).
type rememberedNames struct {
	mu    sync.Mutex
	ctime unix.Timespec
	m     map[string]knownName
}

// A knownName is the file that a name was found to be.
type knownName struct {
	handle vfs.Handle
	ino    uint64
	// node is the file as it was held open; it is not kept open by this.
	node weak.Pointer[node]
}

const (
	maxDirNames = 1 << 14 // in one directory
	maxAllNames = 1 << 16 // in all
)

func (r *rememberedNames) find(name []byte, ctime unix.Timespec) (n knownName, ok bool) {
	r.mu.Lock()
	if r.ctime == ctime {
		n, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return n, ok
}

// rememberName keeps what name in d is. Before it was looked up d's attributes
// were st, and their ctime was old then (FS.namesAreOld): what changed d in the
// meantime gave it another one. A full memory keeps what it has, so that a
// listing of a directory that does not fit finds some of it the next time.
func (fs *FS) rememberName(d *node, st *unix.Stat_t, name []byte, n knownName) {
	r := &d.names
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctime != st.Ctim {
		fs.stats.names.Add(-int64(len(r.m)))
		clear(r.m)
		r.ctime = st.Ctim
	}
	if len(r.m) >= maxDirNames || fs.stats.names.Load() >= maxAllNames {
		return
	}
	if r.m == nil {
		r.m = make(map[string]knownName)
	}
	was := len(r.m)
	r.m[string(name)] = n
	fs.stats.names.Add(int64(len(r.m) - was))
}

func (fs *FS) forgetNames(d *node) {
	r := &d.names
	r.mu.Lock()
	fs.stats.names.Add(-int64(len(r.m)))
	r.m = nil
	r.mu.Unlock()
}
