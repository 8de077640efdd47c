package local

import (
	"sync"
	"weak"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rememberedNames maps names in a directory to the files found under them. The field change is the
// directory's Change at the time when they were found. Before each use, FS.remembered or
// listing.open asks the kernel whether the name still belongs to that file.
type rememberedNames struct {
	mu     sync.Mutex
	change uint64
	m      map[string]knownName
}

// A knownName is the file that was found under a name.
type knownName struct {
	handle vfs.Handle
	ino    uint64
	// node is the file's node, if it still exists; this weak pointer does not keep it in memory.
	node weak.Pointer[node]
}

const (
	maxDirNames = 1 << 14 // names in one directory
	maxAllNames = 1 << 16 // names in all directories together
)

// findName returns the file that is remembered for name in d. The caller has just read d's
// attributes.
func (d *node) findName(name []byte) (n knownName, ok bool) {
	r := &d.names
	r.mu.Lock()
	if d.inode.version.still(r.change) {
		n, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return n, ok
}

// rememberName remembers that name in d is the file n. The second argument holds d's attributes,
// which were read before the name was looked up. If look.still is not set in it, rememberName does
// nothing. If a limit of names is reached (maxDirNames, maxAllNames), name is not remembered. The
// names remembered before stay, so that the next listing of a directory with too many names finds
// some of them.
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
