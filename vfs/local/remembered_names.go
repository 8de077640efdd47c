package local

import (
	"sync"
	"weak"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rememberedNames maps names in a directory to files, as found while the directory's Change
// was change. Each use asks the kernel again about the name (FS.remembered).
type rememberedNames struct {
	mu     sync.Mutex
	change uint64
	m      map[string]knownName
}

// A knownName is the file that was found under a name.
type knownName struct {
	handle vfs.Handle
	ino    uint64
	// node is the file's node, if it still exists; this pointer does not keep it.
	node weak.Pointer[node]
}

const (
	maxDirNames = 1 << 14 // in one directory
	maxAllNames = 1 << 16 // in all directories together
)

// findName returns the file that was found under name in d. The caller has just looked at d.
func (d *node) findName(name []byte) (n knownName, ok bool) {
	r := &d.names
	r.mu.Lock()
	if d.inode.version.still(r.change) {
		n, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return n, ok
}

// rememberName remembers the file found under name in d after the look in. A full memory keeps
// its entries, so that the next listing of a directory that does not fit finds part of it.
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
