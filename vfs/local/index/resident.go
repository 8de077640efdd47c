package index

import (
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

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

// residence holds the address and the size of a database's memory mapping. The zero value is
// ready.
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

// view is db.View, but first calls populate, so that the transaction should not have to wait for
// the disk in a page fault.
func (r *residence) view(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	return db.View(f)
}

// update is db.Update, but first calls populate, as view does. Only one goroutine at a time may
// call it.
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

// populate makes the kernel read pages of the mapping that are not in memory. It does nothing if
// it did so less than residentFor ago. If the mapping was replaced meanwhile, it reads some other
// memory, or nothing. A kernel before 5.14 does not have MADV_POPULATE_READ; there a page fault
// may wait for the disk.
func (r *residence) populate() {
	at, length, now := r.at.Load(), r.length.Load(), time.Now().UnixNano()
	if at == 0 || now < r.until.Load() {
		return
	}
	unix.Syscall(unix.SYS_MADVISE, at, uintptr(length), unix.MADV_POPULATE_READ)
	r.until.Store(time.Now().Add(residentFor).UnixNano())
}
