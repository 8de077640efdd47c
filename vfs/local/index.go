package local

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// index is the resolver that needs no capability. It remembers on disk the names and directories
// where each file was seen, so that a restarted daemon finds the files. If a local program
// renamed a file, the index searches for it (index_search.go).
//
// A goroutine writes new names some time later (index_pending.go). If the process dies before
// that, the index has to search for these files.
type index struct {
	fs   *FS
	root vfs.Handle
	file string
	db   *bolt.DB
	// pages keeps the pages of db in memory.
	pages residence

	mu      sync.Mutex
	emptied *sync.Cond
	pending map[vfs.Handle]*learnt // new names that are not yet written
	writing map[vfs.Handle]*learnt // being written
	recent  map[vfs.Handle]place   // the latest place of each file, to skip names that are known already
	dead    map[vfs.Handle]struct{}
	wake    chan struct{}
	stop    chan struct{}
	ended   chan struct{}

	searches
}

// A place is a name in a directory.
type place struct {
	dir  vfs.Handle
	name string
}

// places are the names under which a file was seen, the latest first. A value is never modified.
type places []place

// maxPlaces bounds the names of one file. If all of them are gone, a search finds another hard
// link.
const maxPlaces = 8

func (ps places) with(p place) places {
	out := append(make(places, 0, min(len(ps)+1, maxPlaces)), p)
	for _, q := range ps {
		if q != p && len(out) < maxPlaces {
			out = append(out, q)
		}
	}
	return out
}

func (ps places) without(p place) places {
	var out places
	for _, q := range ps {
		if q != p {
			out = append(out, q)
		}
	}
	return out
}

const (
	maxRecent = 1 << 15
	maxDead   = 1 << 16
)

var placesBucket = []byte("places")

// openIndex opens the index in stateDir for the tree whose root has the handle root. Only one
// process at a time can use an index.
func openIndex(fs *FS, stateDir string, root vfs.Handle) (resolver, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	sum.Write(root.Bytes())
	file := indexFiles.claim(filepath.Join(stateDir, "handles-"+hex.EncodeToString(sum.Sum(nil))))
	x, err := newIndex(fs, file, root)
	if err != nil {
		indexFiles.release(file)
		return nil, err
	}
	go x.write()
	return x, nil
}

func newIndex(fs *FS, file string, root vfs.Handle) (*index, error) {
	db, err := openResident(file)
	if err != nil {
		return nil, fmt.Errorf("index of handles %s (in use by another process?): %w", file, err)
	}
	x := &index{fs: fs, file: file, root: root, db: db, pending: map[vfs.Handle]*learnt{}, recent: map[vfs.Handle]place{},
		dead: map[vfs.Handle]struct{}{}, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	if err = x.pages.update(db, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(placesBucket)
		return err
	}); err != nil {
		db.Close()
		return nil, fmt.Errorf("index of handles %s: %w", file, err)
	}
	x.emptied = sync.NewCond(&x.mu)
	x.wanted, x.vain, x.patience = map[vfs.Handle]struct{}{}, map[vfs.Handle]time.Time{}, searchPatience
	return x, nil
}

// indexFiles are the index files that this process has open. If one tree is exported twice with
// different options, each FS has a file of its own.
var indexFiles = fileClaims{m: map[string]bool{}}

type fileClaims struct {
	mu sync.Mutex
	m  map[string]bool
}

func (c *fileClaims) claim(base string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	file := base + ".db"
	for i := 2; c.m[file]; i++ {
		file = fmt.Sprintf("%s-%d.db", base, i)
	}
	c.m[file] = true
	return file
}

func (c *fileClaims) release(file string) {
	c.mu.Lock()
	delete(c.m, file)
	c.mu.Unlock()
}

func (x *index) scheme() string { return "index" }

func (x *index) close() error {
	close(x.stop)
	x.endSearch()
	<-x.ended
	err := x.db.Close()
	indexFiles.release(x.file)
	return err
}

// On disk, a place is the length of the directory's handle, the length of the name (one byte
// each), the handle, and the name. Places follow each other.
func encodePlaces(ps places) []byte {
	var b []byte
	for i := range ps {
		b = append(b, byte(ps[i].dir.Len()), byte(len(ps[i].name)))
		b = append(ps[i].dir.Append(b), ps[i].name...)
	}
	return b
}

// decodePlaces stops at the first invalid place.
func decodePlaces(b []byte) (ps places) {
	for len(b) >= 2 && len(ps) < maxPlaces {
		d, n := int(b[0]), int(b[1])
		if b = b[2:]; len(b) < d+n {
			break
		}
		h, ok := vfs.MakeHandle(b[:d])
		if name := b[d : d+n]; ok && vfs.CheckName(name, maxName) == nil && !vfs.IsDot(name) {
			ps = append(ps, place{h, string(name)})
		}
		b = b[d+n:]
	}
	return ps
}

func (x *index) open(h vfs.Handle) (int, error) {
	if h == x.root {
		return x.openRoot()
	}
	x.mu.Lock()
	_, dead := x.dead[h]
	x.mu.Unlock()
	if dead {
		return -1, syscall.ESTALE
	}
	if fd, err := x.openPlace(&h); err == nil || outOfDescriptors(err) {
		return fd, err
	}
	return x.find(&h)
}

func (x *index) openRoot() (int, error) {
	return sysOpenat2(x.fs.mount, dot, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
}

var dot = []byte(".")

// openPlace opens h at the first of its known places where it still is.
func (x *index) openPlace(h *vfs.Handle) (int, error) {
	err := error(syscall.ESTALE)
	for _, p := range x.places(h) {
		var fd int
		if fd, err = x.openAt(h, p); err == nil || outOfDescriptors(err) {
			return fd, err
		}
	}
	return -1, err
}

// openAt opens h at p. It goes down from the root, through the latest place of each directory.
func (x *index) openAt(h *vfs.Handle, p place) (int, error) {
	up := []string{p.name}
	for at := p.dir; at != x.root; {
		ps := x.places(&at)
		if len(ps) == 0 || len(up) >= maxDepth {
			return -1, syscall.ESTALE
		}
		up = append(up, ps[0].name)
		at = ps[0].dir
	}
	fd, err := x.openRoot()
	if err != nil {
		return -1, err
	}
	for i := len(up) - 1; i >= 0; i-- {
		next, err := sysOpenat2(fd, []byte(up[i]), unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	err = x.confirm(h, &fd)
	return fd, err
}

// confirm checks that *fd is open on h; otherwise it closes *fd.
func (x *index) confirm(h *vfs.Handle, fd *int) error {
	var st unix.Stat_t
	err := fstat(*fd, &st)
	if err == nil {
		var is vfs.Handle
		if is, err = identify(*fd, &st); err == nil && is == *h {
			return nil
		}
	}
	unix.Close(*fd)
	*fd = -1
	return syscall.ESTALE
}
