package local

import (
	"sync"
	"weak"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rememberedNames are what names in a directory were found to be while it was in the state that
// change names. Whether a name is so now is asked by the name (FS.remembered).
type rememberedNames struct {
	mu     sync.Mutex
	change uint64
	m      map[string]knownName
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

// findName returns what name in d, which was just looked at, was found to be.
func (d *node) findName(name []byte) (n knownName, ok bool) {
	r := &d.names
	r.mu.Lock()
	if d.inode.version.still(r.change) {
		n, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return n, ok
}

// rememberName keeps what name in d was found to be after d looked like in. A full memory keeps
// what it has, so that a listing of a directory that does not fit finds some of it the next time.
func (fs *FS) rememberName(d *node, in *look, name []byte, n knownName) {
	if !in.still {
		return
	}
	r := &d.names
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.change != in.change {
		fs.stats.names.Add(-int64(len(r.m)))
		clear(r.m)
		r.change = in.change
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
