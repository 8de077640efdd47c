package local

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rememberedNames are what names in a directory were found to be while its
// ctime was what it says: no name in it can have changed since. As with
// verdicts, a ctime younger than a second may be shared by a change still to
// come, and nothing is remembered by it.
type rememberedNames struct {
	mu    sync.Mutex
	ctime unix.Timespec
	m     map[string]vfs.Handle
}

const (
	maxDirNames = 1 << 10 // in one directory
	maxAllNames = 1 << 16 // in all
)

func (r *rememberedNames) find(name []byte, ctime unix.Timespec) (h vfs.Handle, ok bool) {
	r.mu.Lock()
	if r.ctime == ctime {
		h, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return h, ok
}

// rememberName keeps what name in d is. Before it was looked up d's attributes
// were st, and after that their ctime was old (FS.isOld): what changed d in the
// meantime had the same ctime only if it was done when the name was looked up.
func (fs *FS) rememberName(d *node, st *unix.Stat_t, name []byte, h vfs.Handle) {
	r := &d.names
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctime != st.Ctim || len(r.m) >= maxDirNames || fs.stats.names.Load() >= maxAllNames {
		fs.stats.names.Add(-int64(len(r.m)))
		clear(r.m)
		r.ctime = st.Ctim
	}
	if fs.stats.names.Load() >= maxAllNames {
		return
	}
	if r.m == nil {
		r.m = make(map[string]vfs.Handle)
	}
	was := len(r.m)
	r.m[string(name)] = h
	fs.stats.names.Add(int64(len(r.m) - was))
}

func (fs *FS) forgetNames(d *node) {
	r := &d.names
	r.mu.Lock()
	fs.stats.names.Add(-int64(len(r.m)))
	r.m = nil
	r.mu.Unlock()
}
