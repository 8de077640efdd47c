package records

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// patience is how long Open waits for another process to close the file.
const patience = 2 * time.Second

// largest is how large a file may be that is read, in bytes: several times what as many
// clients take as there may be.
const largest = 1 << 28

// What the database has: in clients a record for each, its key a digest of the name, so that
// long names make no deep tree; in server how often it was started, and the sum of all
// that. Files of earlier versions have no sum, and in names the principals by the names.
var (
	clients = []byte("records")
	names   = []byte("clients")
	server  = []byte("server")
	starts  = []byte("starts")
	sum     = []byte("sum")
)

// An entry is what there is of one client. The address is as netip.Addr writes it, or empty.
type entry struct{ principal, address string }

// hash is a client's part of the sum, which is that of all of them, and of the starts.
func (e entry) hash(key string) uint64 {
	h := fnv.New64a()
	for _, s := range [...]string{key, e.principal, e.address} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	return h.Sum64()
}

// encode is a client's value in the database: its name and its principal, each with its length
// before it in four bytes, and its address.
func (e entry) encode(key string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.principal)))
	return append(append(b, e.principal...), e.address...)
}

// decode takes a value apart.
func decode(value string) (key string, e entry, ok bool) {
	cut := func() (s string) {
		if len(value) < 4 {
			ok = false
			return ""
		}
		n := uint64(binary.BigEndian.Uint32([]byte(value[:4])))
		if value = value[4:]; n > uint64(len(value)) {
			ok = false
			return ""
		}
		s, value = value[:n], value[n:]
		return s
	}
	ok = true
	key, e.principal = cut(), cut()
	e.address = value
	return key, e, ok && key != ""
}

// digest is a client's key in the database.
func digest(key string) []byte {
	d := sha256.Sum256([]byte(key))
	return d[:]
}

// sumOf is the sum of the starts alone.
func sumOf(starts uint32) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint32(nil, starts))
	return h.Sum64()
}

// A Damaged error says that a file is not what was written there, and why.
type Damaged struct{ Path, Why string }

func (d *Damaged) Error() string { return fmt.Sprintf("%s is damaged: %s", d.Path, d.Why) }

// A Store is a state.Records in a file. It has all records in memory as well, which tell
// what is to be written anew after the disk has failed.
type Store struct {
	path   string
	mu     sync.Mutex
	closed bool
	db     *bolt.DB
	starts uint32
	all    map[string]entry
	sum    uint64
	// suspect: the disk has failed when the file was written. What of that is on the disk
	// is not known, whatever later reads and syncs say: the file is written anew before
	// the next change.
	suspect bool
}

// Open opens the file at path, and makes it where it is not there. Only its owner can read
// it. What is there is checked, and written anew: no damage to the file but one is overlooked
// (a transaction that was never reported done), and it is no larger than it need be. Where
// it is not what was written there the error is a *Damaged.
func Open(path string) (*Store, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s := &Store{path: path, all: make(map[string]entry)}
	old, err := s.load()
	if old != nil {
		defer old.Close()
	}
	if err != nil {
		return nil, err
	}
	if s.starts >= mostStarts {
		return nil, &Damaged{path, "the number of starts is at its end"}
	}
	s.starts++
	s.sum = sumOf(s.starts)
	for key, e := range s.all {
		s.sum += e.hash(key)
	}
	if err := s.replace(s.all, s.sum); err != nil {
		return nil, fmt.Errorf("write the records of NFSv4 clients in %s: %w", path, err)
	}
	return s, nil
}

// load reads and locks the file, where there is one.
func (s *Store) load() (f *os.File, err error) {
	f, err = os.OpenFile(s.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Identities of clients are made of the number of starts: those of a file that was
		// removed shall not come again.
		var b [4]byte
		rand.Read(b[:])
		s.starts = binary.BigEndian.Uint32(b[:]) % (mostStarts / 2)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open the records of NFSv4 clients in %s: %w", s.path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return f, fmt.Errorf("look at the records of NFSv4 clients in %s: %w", s.path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return f, &Damaged{s.path, "it is not a regular file"}
	case st.Mode&0o022 != 0:
		return f, &Damaged{s.path, fmt.Sprintf("it has mode %04o, and others may have written it; if they have not, chmod 0600 %s", st.Mode&0o7777, s.path)}
	case st.Size == 0:
		return f, &Damaged{s.path, "it is empty"}
	case st.Size > largest:
		return f, &Damaged{s.path, fmt.Sprintf("it has %d bytes, more than it can need", st.Size)}
	}
	if err := s.lock(f); err != nil {
		return f, err
	}
	b, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return f, fmt.Errorf("read the records of NFSv4 clients in %s: %w", s.path, err)
	}
	if err := s.take(b); err != nil {
		return f, &Damaged{s.path, err.Error()}
	}
	return f, nil
}

// lock takes the lock that bbolt has as long as the file is open.
func (s *Store) lock(f *os.File) error {
	for until := time.Now().Add(patience); unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("open the records of NFSv4 clients in %s: another process has them open", s.path)
		}
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(s.path); err != nil || !os.SameFile(mine, now) {
		return fmt.Errorf("open the records of NFSv4 clients in %s: another process has just opened them", s.path)
	}
	return nil
}

// take takes the content of a file, where its sum is right.
func (s *Store) take(b []byte) error {
	values, all, earlier, err := read(b)
	if err != nil {
		return err
	}
	n, there := values[string(starts)]
	if !there && len(values) == 0 && len(all) == 0 {
		return nil // it was made, and never used
	}
	if len(n) != 4 {
		return errors.New("the number of starts is not one")
	}
	s.starts, s.all = binary.BigEndian.Uint32([]byte(n)), all
	total := sumOf(s.starts)
	for key, e := range all {
		total += e.hash(key)
	}
	want, summed := values[string(sum)]
	switch {
	case summed && !earlier && len(values) == 2 && len(want) == 8 && binary.BigEndian.Uint64([]byte(want)) == total:
	case !summed && len(values) == 1 && earlier:
	default:
		return errors.New("what is in it is not what its checksum is of")
	}
	return nil
}

// replace makes the file one with these clients, whole or not at all whenever the machine
// stops, and opens that.
func (s *Store) replace(all map[string]entry, total uint64) error {
	next := s.path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openDB(next)
	if err != nil {
		os.Remove(next)
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [...][]byte{clients, server} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		delta := make(map[string]*entry, len(all))
		for key, e := range all {
			delta[key] = &e
		}
		if err := tx.Bucket(server).Put(starts, binary.BigEndian.AppendUint32(nil, s.starts)); err != nil {
			return err
		}
		return write(tx, delta, total)
	})
	if e := db.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		os.Remove(next)
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	s.db, err = openDB(s.path)
	return err
}

// openFile opens the files of databases.
var openFile = os.OpenFile

func openDB(path string) (*bolt.DB, error) {
	return bolt.Open(path, 0o600, &bolt.Options{
		Timeout: patience, FreelistType: bolt.FreelistMapType, OpenFile: openFile,
		// A page that has to be read when it is looked at stops the whole process as
		// long as the disk hangs.
		MmapFlags: unix.MAP_POPULATE,
	})
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

// Begin implements state.Records. The start was counted by Open.
func (s *Store) Begin() (n uint32, known []state.Record, err error) {
	for key, e := range s.all {
		r := state.Record{Minor: uint32(key[0]), Owner: key[1:], Principal: e.principal}
		if e.address != "" {
			if r.Address, err = netip.ParseAddr(e.address); err != nil {
				return 0, nil, &Damaged{s.path, err.Error()}
			}
		}
		known = append(known, r)
	}
	slices.SortFunc(known, func(a, b state.Record) int { return strings.Compare(key(a), key(b)) })
	return s.starts, known, nil
}

// mostStarts is how many starts there may be, so that the identities of clients do not
// come again.
const mostStarts = 1<<24 - 1

// Put implements state.Records.
func (s *Store) Put(more []state.Record) error {
	delta := make(map[string]*entry, len(more))
	for _, r := range more {
		e := &entry{principal: r.Principal}
		if r.Address.IsValid() {
			e.address = r.Address.String()
		}
		delta[key(r)] = e
	}
	return s.change(delta)
}

// Remove implements state.Records.
func (s *Store) Remove(gone []state.Record) error {
	delta := make(map[string]*entry, len(gone))
	for _, r := range gone {
		delta[key(r)] = nil
	}
	return s.change(delta)
}

func key(r state.Record) string { return string(append([]byte{byte(r.Minor)}, r.Owner...)) }

// change changes the clients of delta: those that are nil go.
func (s *Store) change(delta map[string]*entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.sum
	for key, e := range delta {
		if old, ok := s.all[key]; ok {
			total -= old.hash(key)
		}
		if e != nil {
			total += e.hash(key)
		}
	}
	var err error
	switch {
	case s.closed:
		err = errors.New("they are closed")
	case s.suspect:
		err = s.renew(delta, total)
	default:
		err = s.db.Update(func(tx *bolt.Tx) error { return write(tx, delta, total) })
	}
	if err != nil {
		s.suspect = s.suspect || !unwritten(err)
		return fmt.Errorf("write the records of NFSv4 clients in %s: %w", s.path, err)
	}
	apply(s.all, delta)
	s.sum = total
	return nil
}

// renew writes the file anew, with a change.
func (s *Store) renew(delta map[string]*entry, total uint64) error {
	all := maps.Clone(s.all)
	apply(all, delta)
	if s.db != nil {
		s.db.Close() // what it says does not matter any more
		s.db = nil
	}
	if err := s.replace(all, total); err != nil {
		return err
	}
	s.suspect = false
	return nil
}

// unwritten says that a transaction failed for want of room: what was written of it is
// not part of the database, and the next one writes it again.
func unwritten(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func apply(all map[string]entry, delta map[string]*entry) {
	for key, e := range delta {
		if e == nil {
			delete(all, key)
		} else {
			all[key] = *e
		}
	}
}

// write writes a change and the sum.
func write(tx *bolt.Tx, delta map[string]*entry, total uint64) error {
	in := tx.Bucket(clients)
	for key, e := range delta {
		var err error
		if e == nil {
			err = in.Delete(digest(key))
		} else {
			err = in.Put(digest(key), e.encode(key))
		}
		if err != nil {
			return err
		}
	}
	return tx.Bucket(server).Put(sum, binary.BigEndian.AppendUint64(nil, total))
}
