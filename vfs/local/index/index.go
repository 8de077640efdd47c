package index

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An Index finds the files of a Tree.
type Index struct {
	// Patience is how long a call waits for a search for its file: 2 s, unless a test sets it.
	Patience time.Duration

	tree Tree
	now  func() time.Time
	root vfs.Handle
	file string
	db   *bolt.DB
	// pages reads the pages of db into memory before they are used.
	pages residence

	mu      sync.Mutex
	emptied *sync.Cond
	pending map[vfs.Handle]*learnt  // new names, not yet written to disk
	writing map[vfs.Handle]*learnt  // new names that write is writing to disk
	recent  map[vfs.Handle]place    // the latest place of each file; Note ignores a repetition of it
	dead    map[vfs.Handle]struct{} // files that have no name any more
	wake    chan struct{}
	stop    chan struct{}
	ended   chan struct{}

	searches
	walks, forgotten atomic.Uint64
}

const (
	maxRecent = 1 << 15
	maxDead   = 1 << 16
	maxDepth  = 4096 // most directories between the root and a file
)

var placesBucket = []byte("places")

// Open opens the index in stateDir for the tree with the given root. Only one process at a time can
// use it.
func Open(tree Tree, stateDir string, root vfs.Handle) (*Index, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	sum.Write(root.Bytes())
	file := claimFile(filepath.Join(stateDir, "handles-"+hex.EncodeToString(sum.Sum(nil))))
	x, err := newIndex(tree, file, root)
	if err != nil {
		releaseFile(file)
		return nil, err
	}
	go x.write()
	return x, nil
}

func newIndex(tree Tree, file string, root vfs.Handle) (*Index, error) {
	db, err := openResident(file)
	if err != nil {
		return nil, fmt.Errorf("index of handles %s (in use by another process?): %w", file, err)
	}
	x := &Index{Patience: searchPatience, tree: tree, now: time.Now, file: file, root: root, db: db,
		pending: map[vfs.Handle]*learnt{}, recent: map[vfs.Handle]place{}, dead: map[vfs.Handle]struct{}{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		searches: searches{wanted: map[vfs.Handle]struct{}{}, vain: map[vfs.Handle]time.Time{}}}
	x.emptied = sync.NewCond(&x.mu)
	if err = x.pages.update(db, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(placesBucket)
		return err
	}); err != nil {
		db.Close()
		return nil, fmt.Errorf("index of handles %s: %w", file, err)
	}
	return x, nil
}

// Stats returns how often a search walked the whole tree, and how many names the index dropped
// because too many waited to be written.
func (x *Index) Stats() (walks, forgotten uint64) { return x.walks.Load(), x.forgotten.Load() }

// indexFiles are the index files that this process has open. If two FSs serve the same directory,
// for example through two mounts, each has an index file of its own.
var indexFiles = struct {
	sync.Mutex
	open map[string]bool
}{open: map[string]bool{}}

// claimFile returns the name, beginning with base, of an index file that is not open, and notes it as open.
func claimFile(base string) string {
	indexFiles.Lock()
	defer indexFiles.Unlock()
	file := base + ".db"
	for i := 2; indexFiles.open[file]; i++ {
		file = fmt.Sprintf("%s-%d.db", base, i)
	}
	indexFiles.open[file] = true
	return file
}

func releaseFile(file string) {
	indexFiles.Lock()
	delete(indexFiles.open, file)
	indexFiles.Unlock()
}

// Close stops the running search and writes the pending names to disk.
func (x *Index) Close() error {
	close(x.stop)
	x.endSearch()
	<-x.ended
	err := x.db.Close()
	releaseFile(x.file)
	return err
}

// Open returns an O_PATH descriptor of h's file. ESTALE: the file does not exist, or a search did
// not find it. ErrDelay: the file needs a search, which has not ended yet.
func (x *Index) Open(h vfs.Handle) (int, error) {
	x.mu.Lock()
	_, dead := x.dead[h]
	x.mu.Unlock()
	if dead {
		return -1, syscall.ESTALE
	}
	if fd, err := x.openPlace(&h); err == nil || passes(err) {
		return fd, err
	}
	return x.find(&h)
}

// openPlace opens the root, or the file h by the first of its known names that still belongs to it.
func (x *Index) openPlace(h *vfs.Handle) (int, error) {
	if *h == x.root {
		return x.tree.OpenRoot()
	}
	err := error(syscall.ESTALE)
	for _, p := range x.places(h) {
		var fd int
		if fd, err = x.openAt(h, p); err == nil || passes(err) {
			return fd, err
		}
	}
	return -1, err
}

// openAt opens the file h by the name p. It goes down from the root; for each directory on the way
// it uses the name that was seen last.
func (x *Index) openAt(h *vfs.Handle, p place) (int, error) {
	up := []string{p.name}
	for at := p.dir; at != x.root; {
		ps := x.places(&at)
		if len(ps) == 0 || len(up) >= maxDepth {
			return -1, syscall.ESTALE
		}
		up = append(up, ps[0].name)
		at = ps[0].dir
	}
	fd, err := x.tree.OpenRoot()
	if err != nil {
		return -1, err
	}
	for i := len(up) - 1; i >= 0; i-- {
		next, err := x.tree.OpenName(fd, []byte(up[i]))
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	if is, _, err := x.tree.Identify(fd); err != nil || is != *h {
		unix.Close(fd)
		return -1, syscall.ESTALE
	}
	return fd, nil
}

// A Tree is the tree in which an Index finds files. Descriptors are O_PATH. Any goroutine may use it.
type Tree interface {
	OpenRoot() (fd int, err error)
	// OpenName opens name in the directory dir. It follows no symlink and crosses no mount point.
	OpenName(dir int, name []byte) (fd int, err error)
	// Identify returns the handle of the file open on fd, and whether it is a directory.
	Identify(fd int) (h vfs.Handle, directory bool, err error)
	// Names calls each for every name in the directory dir except "." and "..", until each returns
	// false. The name is valid only during that call.
	Names(dir int, each func(name []byte) bool) error
}

// passes reports whether err comes from a shortage of descriptors or memory, or an interrupted call. Such
// an error says nothing about the file.
func passes(err error) bool {
	return err == syscall.EMFILE || err == syscall.ENFILE || err == syscall.ENOMEM || err == syscall.EINTR || err == syscall.EAGAIN
}

// The database maps its file into memory and reads it there. If a page is not in memory, a page
// fault reads it from the disk, and the Go scheduler does not notice. While the disk hangs, the
// goroutine keeps its P (a processor of the Go runtime), and the next garbage collection stops the
// whole process, as with a raw system call.
//
// So before a transaction the index calls madvise, which reads the pages into memory; while a
// system call waits for the disk, the scheduler takes the P back. The call covers the whole file
// and costs some 50 ns for each 4-KiB page in memory; so it is made at most once in residentFor.
// One risk remains: within that time the kernel drops a page and the disk hangs.

// residentFor is how long pages are assumed to stay in memory after populate has read them.
const residentFor = time.Second

// residence is the memory mapping of a database. The zero value is ready.
type residence struct {
	at     atomic.Uintptr // address of the mapping
	length atomic.Int64   // bytes of the mapping that the database uses
	until  atomic.Int64   // Unix time in ns until which populate does nothing
}

// openResident opens the database in file with all its pages in memory.
func openResident(file string) (*bolt.DB, error) {
	return bolt.Open(file, 0o600, &bolt.Options{Timeout: 2 * time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true,
		MmapFlags: unix.MAP_POPULATE})
}

// update is db.Update, but first calls populate, so that the transaction should not have to wait for
// the disk in a page fault. Only one goroutine at a time may call it.
func (r *residence) update(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	if err := db.Update(f); err != nil {
		return err
	}
	// The commit may have mapped a longer file at another address. Only update changes the
	// mapping, so no other goroutine changes it now.
	if at := db.Info().Data; r.at.Swap(at) != at {
		r.until.Store(0)
	}
	return db.View(func(tx *bolt.Tx) error {
		r.length.Store(tx.Size())
		return nil
	})
}

// populate makes the kernel read the pages of the mapping that are not in memory, unless it did so less
// than residentFor ago. If the mapping was replaced meanwhile, it reads some other memory, or nothing.
// A kernel before 5.14 has no MADV_POPULATE_READ; there a page fault may wait for the disk.
func (r *residence) populate() {
	at, length, now := r.at.Load(), r.length.Load(), time.Now().UnixNano()
	if at == 0 || now < r.until.Load() {
		return
	}
	unix.Syscall(unix.SYS_MADVISE, at, uintptr(length), unix.MADV_POPULATE_READ)
	r.until.Store(time.Now().Add(residentFor).UnixNano())
}
