package local

import (
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// The database maps its file into memory and reads it there. A page that is not in
// memory is read from the disk by a page fault, of which the scheduler knows
// nothing: while the disk hangs, the goroutine keeps its P, and the next garbage
// collection stops the whole process, as a raw system call does (raw_syscall.go).
//
// So the pages are brought into memory by a system call first, before each
// transaction: madvise waits for the disk where the scheduler takes the P back. It
// goes through the whole file, some 50 ns a page of 4 KiB that is in memory
// already, so it is done once in residentFor at most. What remains is a page that
// the kernel takes back within that time, and a disk that hangs in it.

// residentFor is how long pages are taken to stay in memory.
const residentFor = time.Second

// residence is what is known of a database's mapping. The zero value is ready.
type residence struct {
	at     atomic.Uintptr // the mapping's address
	length atomic.Int64   // bytes of it that the database uses
	until  atomic.Int64   // when its pages are asked for again, Unix time in ns
}

// openResident opens the database in file, and maps it with its pages in memory.
func openResident(file string) (*bolt.DB, error) {
	return bolt.Open(file, 0o600, &bolt.Options{Timeout: 2 * time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true,
		MmapFlags: unix.MAP_POPULATE})
}

// view is db.View over pages that are in memory.
func (r *residence) view(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	return db.View(f)
}

// update is db.Update over pages that are in memory. One goroutine at a time may
// call it.
func (r *residence) update(db *bolt.DB, f func(*bolt.Tx) error) error {
	r.populate()
	if err := db.Update(f); err != nil {
		return err
	}
	// The commit may have mapped a longer file elsewhere; this goroutine alone does that.
	if at := db.Info().Data; r.at.Swap(at) != at {
		r.until.Store(0)
	}
	return db.View(func(tx *bolt.Tx) error {
		r.length.Store(tx.Size())
		return nil
	})
}

// populate has the kernel read what is not in memory. Should the mapping have gone
// in the meantime, this reads some other memory, or nothing. A kernel before 5.14
// does not know how; there a page fault may wait for the disk.
func (r *residence) populate() {
	at, length, now := r.at.Load(), r.length.Load(), time.Now().UnixNano()
	if at == 0 || now < r.until.Load() {
		return
	}
	unix.Syscall(unix.SYS_MADVISE, at, uintptr(length), unix.MADV_POPULATE_READ)
	r.until.Store(time.Now().Add(residentFor).UnixNano())
}
