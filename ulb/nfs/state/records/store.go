package records

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// patience is how long Open waits for another process to close the file.
const patience = 2 * time.Second

// largest is the largest file that load reads, in bytes: several times the size with maxClients clients.
const largest = 1 << 28

// The Store rewrites the file when it is longer than slack, in bytes, plus twice its size after the last
// rewrite, because then much of its content is outdated.
const slack = 1 << 16

// mostStarts is the largest number of starts. Beyond it, client IDs would repeat.
const mostStarts = 1<<24 - 1

// A Damaged error says why the Store cannot trust the file at Path.
type Damaged struct{ Path, Why string }

func (d *Damaged) Error() string { return fmt.Sprintf("%s is damaged: %s", d.Path, d.Why) }

// A Store is a state.Records in a file. It also keeps all records in memory, to rewrite the file.
type Store struct {
	path   string
	mu     sync.Mutex
	closed bool
	file   *os.File
	content
	// size is the file's length in bytes, sum its checksum, and fresh its length after the last rewrite.
	size, fresh int64
	sum         uint32
	// suspect is true after a failed write: the Store then rewrites the file with the next change,
	// because the content on the disk is unknown, even if later reads and syncs succeed.
	suspect bool
}

// Open opens the file at path, and creates it, with mode 0600, if it does not exist. It checks the whole
// content and rewrites the file, so that it is as small as possible. It converts a database of an earlier
// version. If Open cannot trust the file, because it is damaged (except for an incomplete last
// transaction) or others may have written it, the error is a *Damaged.
func Open(path string) (*Store, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s := &Store{path: path}
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
	if err := s.replaceLocked(&s.content); err != nil {
		return nil, fmt.Errorf("write the records of NFSv4 clients in %s: %w", path, err)
	}
	return s, nil
}

// load reads and locks the file, if it exists.
func (s *Store) load() (f *os.File, err error) {
	f, err = os.OpenFile(s.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Client IDs contain the number of starts. It is random, so that former ones hardly appear again.
		var b [4]byte
		rand.Read(b[:])
		s.content = content{binary.BigEndian.Uint32(b[:]) % (mostStarts / 2), make(map[key]state.Record)}
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
	if strings.HasPrefix(magic, string(b[:min(len(b), len(magic))])) {
		s.content, err = read(b)
	} else {
		s.content, err = readEarlier(s.path, b)
	}
	if err != nil {
		return f, &Damaged{s.path, err.Error()}
	}
	return f, nil
}

// lock takes the file lock that a server holds while it has the file open. It waits no longer than
// patience. It fails if another process replaced the file at s.path meanwhile.
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

// openFile opens files for writing. Tests replace it.
var openFile = os.OpenFile

// replaceLocked atomically replaces the file with one that contains c.
func (s *Store) replaceLocked(c *content) (err error) {
	b, sum := c.whole()
	next := s.path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openFile(next, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		f.Close()
		os.Remove(next)
		return err
	}
	if s.file != nil {
		s.file.Close() // the new file replaces it, so an error does not matter
	}
	s.file, s.sum, s.size, s.fresh = f, sum, int64(len(b)), int64(len(b))
	return syncDir(filepath.Dir(s.path))
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
	return s.file.Close()
}

// Begin implements state.Records. Open has already counted the start.
func (s *Store) Begin() (n uint32, known []state.Record, err error) {
	return s.starts, s.list(), nil
}

// Put implements state.Records.
func (s *Store) Put(more []state.Record) error {
	var changes []byte
	for _, r := range more {
		changes = appendPut(changes, &r)
	}
	return s.change(changes)
}

// Remove implements state.Records.
func (s *Store) Remove(gone []state.Record) error {
	var changes []byte
	for _, r := range gone {
		changes = appendRemove(changes, keyOf(&r))
	}
	return s.change(changes)
}

// change applies changes, all of them or none.
func (s *Store) change(changes []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := content{s.starts, s.all}
	var err error
	switch {
	case s.closed:
		err = errors.New("they are closed")
	case s.suspect, s.size > 2*s.fresh+slack:
		next.all = maps.Clone(s.all)
		if err = next.apply(changes); err == nil {
			err = s.replaceLocked(&next)
		}
	default:
		err = s.appendLocked(changes)
	}
	if s.suspect = err != nil; err != nil {
		return fmt.Errorf("write the records of NFSv4 clients in %s: %w", s.path, err)
	}
	return s.apply(changes)
}

// appendLocked writes a transaction at the end, and syncs it. Then it updates the length in the head, so
// that read can tell damage from a transaction that a crash cut short.
func (s *Store) appendLocked(changes []byte) error {
	b, sum := appendTransaction(nil, changes, s.sum)
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.size, s.sum = s.size+int64(len(b)), sum
	_, err := s.file.WriteAt(appendHead(nil, s.size, s.sum), 0)
	return err
}
