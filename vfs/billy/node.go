package billy

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file that a client has seen.
type node struct {
	handle vfs.Handle
	// theirs is the handler's handle, where handle is made of it.
	theirs []byte
	id     uint64 // Attr.FileID
	inode  bool   // id is the file system's own
	kind   vfs.Type

	// memory.mu guards the rest.
	links    []link // by which it is reached; none where it is gone, and for the root
	children *children
	observed
	verifier  [8]byte // of the exclusive Create that made it
	exclusive bool

	// io is held exclusively by who writes the data.
	io sync.RWMutex
}

// A link is a name of a node.
type link struct {
	dir  *node
	name string
}

// memory is what is known of the files: those that a client has seen, as a
// tree, because billy file systems go by paths and clients do not.
type memory struct {
	mu       sync.Mutex
	root     *node
	byHandle map[vfs.Handle]*node
	byID     map[uint64]*node
	key      uint64 // of the handles that are good in this process only
	lastOwn  uint64
	salt     uint64 // the upper bits of every cookie of this process
	device   uint64 // of the root, where it shows one
	// handlerMute: the handler makes no handles.
	handlerMute bool
}

// First bytes of handles.
const (
	ownHandle     = 'o' // key, number: good in this process
	handlerHandle = 'h' // file number, the handler's handle
)

const maxTheirs = vfs.MaxHandle - 9

func (m *memory) init(f *FS, info fs.FileInfo) {
	m.byHandle = make(map[vfs.Handle]*node)
	m.byID = make(map[uint64]*node)
	var b [16]byte
	rand.Read(b[:])
	m.key = binary.LittleEndian.Uint64(b[:])
	m.salt = binary.LittleEndian.Uint64(b[8:]) & (1<<22 - 1) << 40
	m.device = device(info)
	m.handlerMute = f.handler == nil || len(f.handler.ToHandle(f.theirFS, nil)) == 0
	m.root = f.newNode(nil, info, f.theirs(nil))
	m.root.children.isRoot = true
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64() | 1
}

// inode returns the file system's own number of a file, false where it shows
// none that tells files apart.
func (m *memory) inode(info fs.FileInfo) (uint64, bool) {
	i := file.GetInfo(info)
	if i == nil || i.Fileid == 0 || device(info) != m.device {
		return 0, false
	}
	return i.Fileid, true
}

// same says that info is still about n.
func (m *memory) same(n *node, info fs.FileInfo) bool {
	if kind(info) != n.kind {
		return false
	}
	id, ok := m.inode(info)
	return !ok || !n.inode || id == n.id
}

// theirs is the handler's handle of a path, nil where it has none that fits.
func (f *FS) theirs(path []string) []byte {
	if f.handlerMute {
		return nil
	}
	var b []byte
	f.fs.call(func() error { b = f.handler.ToHandle(f.theirFS, path); return nil })
	if len(b) == 0 || len(b) > maxTheirs {
		return nil
	}
	return b
}

// newNode makes and enters the node of a file at path; mu is held, or nobody
// else is there yet.
func (f *FS) newNode(path []string, info fs.FileInfo, theirs []byte) *node {
	m := &f.memory
	n := &node{kind: kind(info)}
	n.id, n.inode = m.inode(info)
	if !n.inode {
		n.id = hash(path...)
		for m.byID[n.id] != nil || n.id == 0 {
			n.id++
		}
	}
	if theirs != nil {
		// With the number, because a handler may give a file the handle that
		// another had before a rename.
		n.theirs = slices.Clone(theirs)
		b := binary.LittleEndian.AppendUint64([]byte{handlerHandle}, n.id)
		n.handle, _ = vfs.MakeHandle(append(b, theirs...))
	} else {
		m.lastOwn++
		b := binary.LittleEndian.AppendUint64([]byte{ownHandle}, m.key)
		n.handle, _ = vfs.MakeHandle(binary.LittleEndian.AppendUint64(b, m.lastOwn))
	}
	if n.kind == vfs.Directory {
		n.children = newChildren(m.salt)
	}
	m.byHandle[n.handle] = n
	m.byID[n.id] = n
	return n
}

// components returns the path of n, mu held; false where n is gone.
func (n *node) components() ([]string, bool) {
	var path []string
	for len(n.links) > 0 {
		path = append(path, n.links[0].name)
		n = n.links[0].dir
	}
	slices.Reverse(path)
	return path, n.children != nil && n.children.isRoot
}

// path returns the path of n, or ESTALE.
func (f *FS) path(n *node) (string, error) {
	f.mu.Lock()
	path, ok := n.components()
	f.mu.Unlock()
	if !ok {
		return "", syscall.ESTALE
	}
	return f.fs.Join(path...), nil
}

// pathIn returns the path of a name in a directory, or ESTALE.
func (f *FS) pathIn(dir *node, name string) (string, error) {
	f.mu.Lock()
	path, ok := dir.components()
	f.mu.Unlock()
	if !ok {
		return "", syscall.ESTALE
	}
	return f.fs.Join(append(path, name)...), nil
}

// find returns the node of a handle. FS.calls is held.
func (f *FS) find(h vfs.Handle) (*node, error) {
	f.mu.Lock()
	n := f.byHandle[h]
	f.mu.Unlock()
	if n != nil {
		return n, nil
	}
	b := h.Bytes()
	switch {
	case len(b) == 17 && b[0] == ownHandle:
		return nil, syscall.ESTALE // removed, or of an earlier process
	case len(b) > 9 && b[0] == handlerHandle && !f.handlerMute:
		return f.recover(h)
	}
	return nil, vfs.ErrBadHandle
}

// recover asks the handler for the path of a handle given out by an earlier
// process.
func (f *FS) recover(h vfs.Handle) (*node, error) {
	b := h.Bytes()
	var path []string
	err := f.fs.call(func() (err error) { _, path, err = f.handler.FromHandle(b[9:]); return })
	if err != nil {
		return nil, syscall.ESTALE
	}
	n := f.root
	for _, name := range path {
		if checkName([]byte(name)) != nil || isDot(name) || n.kind != vfs.Directory {
			return nil, syscall.ESTALE
		}
		if n, _, err = f.step(n, name); err != nil {
			if errors.Is(err, syscall.ENOENT) {
				err = syscall.ESTALE
			}
			return nil, err
		}
	}
	// The path may lead to another file than then.
	if n.id != binary.LittleEndian.Uint64(b[1:]) || n.handle != h {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// step finds name in dir: the node and its fresh attributes.
func (f *FS) step(dir *node, name string) (*node, fs.FileInfo, error) {
	path, err := f.pathIn(dir, name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.lstat(dir, name, path)
	if err != nil {
		if err = errno(err); errors.Is(err, syscall.ENOENT) {
			f.mu.Lock()
			f.detach(dir, name)
			f.mu.Unlock()
		}
		return nil, nil, err
	}
	n := f.adopt(dir, name, info)
	f.measure(n, path)
	return n, info, nil
}

// lstat looks at what name in dir is. Where that is known already, nobody
// writes to it meanwhile.
func (f *FS) lstat(dir *node, name, path string) (fs.FileInfo, error) {
	f.mu.Lock()
	n := dir.children.get(name)
	f.mu.Unlock()
	if n != nil {
		n.io.RLock()
		defer n.io.RUnlock()
	}
	return f.fs.Lstat(path)
}

// adopt returns the node that name in dir is, where info was just seen.
func (f *FS) adopt(dir *node, name string, info fs.FileInfo) *node {
	f.mu.Lock()
	if n := f.knownAs(dir, name, info); n != nil {
		f.mu.Unlock()
		return n
	}
	path, _ := dir.components()
	path = append(path, name)
	f.mu.Unlock()
	theirs := f.theirs(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.knownAs(dir, name, info); n != nil {
		return n
	}
	f.detach(dir, name)
	n := f.newNode(path, info, theirs)
	f.attach(n, dir, name)
	return n
}

// knownAs returns the node that name in dir is known to be, where info fits;
// mu is held.
func (f *FS) knownAs(dir *node, name string, info fs.FileInfo) *node {
	if n := dir.children.get(name); n != nil && f.same(n, info) {
		return n
	}
	// Another name of a file that is known.
	id, ok := f.inode(info)
	if !ok || info.IsDir() || file.GetInfo(info).Nlink < 2 {
		return nil
	}
	n := f.byID[id]
	if n == nil || !n.inode || n.kind != kind(info) {
		return nil
	}
	f.detach(dir, name)
	f.attach(n, dir, name)
	return n
}

// attach gives n a name; mu is held.
func (f *FS) attach(n, dir *node, name string) {
	n.links = append(n.links, link{dir, name})
	dir.children.put(name, n)
}

// detach takes a name away from what has it, and forgets that with its last
// name; mu is held.
func (f *FS) detach(dir *node, name string) {
	n := dir.children.get(name)
	if n == nil {
		return
	}
	dir.children.remove(name)
	n.links = slices.DeleteFunc(n.links, func(l link) bool { return l.dir == dir && l.name == name })
	if len(n.links) == 0 {
		f.forget(n)
	}
}

// forget ends a node that has no names; mu is held.
func (f *FS) forget(n *node) {
	delete(f.byHandle, n.handle)
	if f.byID[n.id] == n {
		delete(f.byID, n.id)
	}
	f.open.forget(n)
	if n.children == nil {
		return
	}
	for name := range n.children.names {
		f.detach(n, name)
	}
}

// lost is forget for a node whose file is not where it was.
func (f *FS) lost(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(n.links) > 0 {
		l := n.links[len(n.links)-1]
		f.detach(l.dir, l.name)
	}
}

// invalidate tells the handler that what it thinks of a node's handle does not
// hold any more.
func (f *FS) invalidate(n *node) {
	if n.theirs != nil {
		// A handler that cannot forget is no reason for a call to fail that
		// has been done.
		_ = f.fs.call(func() error { return f.handler.InvalidateHandle(f.theirFS, n.theirs) })
	}
}

// checkName judges a name that is looked up, made or removed.
func checkName(name []byte) error {
	switch {
	case len(name) == 0, strings.ContainsAny(string(name), "/\x00"):
		return syscall.EINVAL
	case len(name) > maxName:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// isDot says that name is "." or "..".
func isDot(name string) bool { return name == "." || name == ".." }
