package index

import (
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// The database maps its file into memory and reads it there. If a page is not in memory, a page
// fault reads it from the disk, and the scheduler does not notice. While the disk hangs, the
// goroutine keeps its P, and the next garbage collection stops the whole process, as with a raw
// system call.
//
// So before a transaction the index calls madvise, which reads the pages into memory; while a
// system call waits for the disk, the scheduler takes the P back. The call covers the whole file
// and costs some 50 ns for each 4-KiB page in memory; so it is made at most once in residentFor.
// One risk remains: the kernel drops a page and the disk hangs within that time.

// residentFor is how long pages are assumed to stay in memory.
const residentFor = time.Second

// residence tracks which memory a database has mapped. The zero value is ready.
type residence struct {
	at     atomic.Uintptr // the mapping's address
	length atomic.Int64   // bytes of it that the database uses
	until  atomic.Int64   // when populate asks for the pages again, Unix time in ns
}

// openResident opens the database in file with all its pages in memory.
func openResident(file string) (*bolt.DB, error) {
	return bolt.Open(file, 0o600, &bolt.Options{Timeout: 2 * time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true,
		MmapFlags: unix.MAP_POPULATE})
}

// view is db.View after populate.
func (r *residence) view(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	return db.View(f)
}

// update is db.Update after populate. Only one goroutine at a time may call it.
func (r *residence) update(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	if err := db.Update(f); err != nil {
		return err
	}
	// The commit may have mapped a longer file at another address; only this goroutine causes
	// that.
	if at := db.Info().Data; r.at.Swap(at) != at {
		r.until.Store(0)
	}
	return db.View(func(tx *bolt.Tx) error {
		r.length.Store(tx.Size())
		return nil
	})
}

// populate makes the kernel read missing pages. If the mapping has gone meanwhile, this reads
// some other memory, or nothing. A kernel before 5.14 does not support it; there a page fault may
// wait for the disk.
func (r *residence) populate() {
	at, length, now := r.at.Load(), r.length.Load(), time.Now().UnixNano()
	if at == 0 || now < r.until.Load() {
		return
	}
	unix.Syscall(unix.SYS_MADVISE, at, uintptr(length), unix.MADV_POPULATE_READ)
	r.until.Store(time.Now().Add(residentFor).UnixNano())
}
