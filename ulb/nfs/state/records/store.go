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
type Damaged struct {
	Path, Why string
	// Content is true if what the file contains is to blame, and no remedy brings it back.
	Content bool
	// Remedy says what to do, unless Content is true.
	Remedy string
}

func (d *Damaged) Error() string { return fmt.Sprintf("%s is damaged: %s", d.Path, d.Reason()) }

// Reason returns Why with the Remedy.
func (d *Damaged) Reason() string {
	if d.Remedy == "" {
		return d.Why
	}
	return d.Why + "; " + d.Remedy
}

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
// content and rewrites the file, so that it is as small as possible; without room on the disk it goes on
// with the old file. It converts a database of an earlier version. If Open cannot trust the file, because
// it is damaged (except for an incomplete last transaction) or others may have written it, the error is a
// *Damaged.
func Open(path string) (*Store, error) {
	s, _, err := openStore(path, false)
	return s, err
}

// OpenAnyhow is like Open. But if the content of the file is damaged, it gives the file the name with Aside
// at its end, begins a new one, in which no client may reclaim anything (RFC 7530 §9.6.3.4.3), and returns
// the damage.
func OpenAnyhow(path string) (*Store, *Damaged, error) { return openStore(path, true) }

// Aside is the end of the name of a file that OpenAnyhow has set aside.
const Aside = ".damaged"

func openStore(path string, anyhow bool) (s *Store, damage *Damaged, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s = &Store{path: path}
	old, to, err := s.load()
	defer func() {
		if old != nil && (s == nil || s.file != old) {
			old.Close()
		}
		if s != nil {
			s.keepRoom()
		}
	}()
	if err == nil {
		err = s.countable(path)
	}
	if d, ok := errors.AsType[*Damaged](err); ok && d.Content && anyhow {
		damage, to = d, end{}
		s.anew()
		err = os.Rename(path, path+Aside)
	}
	if err != nil {
		return nil, damage, err
	}
	s.starts++
	if err = s.replaceLocked(&s.content); noRoom(err) && to.at > 0 {
		err = s.goOnWith(old, to)
	}
	if err != nil {
		return nil, damage, fmt.Errorf("write the records of NFSv4 clients in %s: %w", path, err)
	}
	return s, damage, nil
}

// goOnWith makes f the file, whose content is s.content without the new number of starts, and appends that
// number. The last transaction may not be on the disk yet, and the head must not get there before it.
func (s *Store) goOnWith(f *os.File, to end) error {
	b, _ := s.whole()
	s.file, s.size, s.sum, s.fresh = f, to.at, to.sum, int64(len(b))
	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.WriteAt(appendHead(nil, to.at, to.sum), 0); err != nil {
		return err
	}
	return s.appendLocked(appendStarts(nil, s.starts))
}

// noRoom reports whether a write failed because the disk or the quota is full. What was on the disk before
// is still there.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// anew makes the content that of a new file.
func (s *Store) anew() {
	// Client IDs contain the number of starts. A random first number makes it unlikely that IDs of a former file return.
	var b [4]byte
	rand.Read(b[:])
	s.content = content{binary.BigEndian.Uint32(b[:]) % (mostStarts / 2), make(map[key]state.Record)}
}

// load reads and locks the file, if it exists. to.at is 0 unless f can be written, and has the present format.
func (s *Store) load() (f *os.File, to end, err error) {
	writable := true
	f, err = os.OpenFile(s.path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EISDIR) {
		writable = false
		f, err = os.OpenFile(s.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.anew()
		return nil, to, nil
	case err != nil:
		return nil, to, fmt.Errorf("open the records of NFSv4 clients in %s: %w", s.path, err)
	}
	b, err := readFile(s.path, f, func() error { return s.lock(f) })
	if err != nil {
		return f, to, err
	}
	if isLog(b) {
		s.content, to, err = read(b)
	} else {
		s.content, err = readEarlier(s.path, b)
	}
	if err != nil || !writable {
		to = end{}
	}
	return f, to, damageOf(s.path, err)
}

// damageOf returns the error for a file that could not be decoded.
func damageOf(path string, err error) error {
	switch {
	case err == nil || errors.Is(err, errCopy):
		return err
	case errors.Is(err, errLater):
		return &Damaged{Path: path, Why: err.Error(), Remedy: "install that version again, or remove the file"}
	default:
		return &Damaged{Path: path, Why: err.Error(), Content: true}
	}
}

// readFile returns the content of f, the file at path. It rejects one that others may have written, and calls lock before
// it judges the size.
func readFile(path string, f *os.File, lock func() error) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("look at the records of NFSv4 clients in %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, &Damaged{Path: path, Why: "it is not a regular file", Remedy: "remove it"}
	case st.Mode&0o022 != 0:
		return nil, &Damaged{Path: path, Why: fmt.Sprintf("it has mode %04o, and others may have written it", st.Mode&0o7777), Remedy: "if they have not, chmod 0600 " + path}
	}
	if err := lock(); err != nil {
		return nil, err
	}
	switch {
	case st.Size == 0:
		return nil, &Damaged{Path: path, Why: "it is empty", Content: true}
	case st.Size > largest:
		return nil, &Damaged{Path: path, Why: fmt.Sprintf("it has %d bytes, more than it can need", st.Size), Content: true}
	}
	b, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return nil, fmt.Errorf("read the records of NFSv4 clients in %s: %w", path, err)
	}
	return b, nil
}

// countable returns an error if the content of the file at path has no number for another start.
func (c *content) countable(path string) error {
	if c.starts < mostStarts {
		return nil
	}
	return &Damaged{Path: path, Why: "the number of starts is at its end", Content: true}
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

// keepRoom keeps room on the disk for the file, after the one that it replaced is closed. Not every file system
// can do that. Without the room a full disk is noticed earlier.
func (s *Store) keepRoom() {
	_ = unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 2*s.most())
}

// most is the length from which on the Store rewrites the file before it appends more. The room that it keeps
// on the disk is twice as long: if the disk is full and the file cannot be rewritten, records can still be
// removed, all of them, and starts counted.
func (s *Store) most() int64 { return 2*s.fresh + slack }

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
	return s.change(changes, false)
}

// Remove implements state.Records.
func (s *Store) Remove(gone []state.Record) error {
	var changes []byte
	for _, r := range gone {
		changes = appendRemove(changes, keyOf(&r))
	}
	return s.change(changes, true)
}

// change applies changes, all of them or none. removes is true if they only remove records.
func (s *Store) change(changes []byte, removes bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("write the records of NFSv4 clients in %s: they are closed", s.path)
	}
	var err error
	full := s.size > s.most()
	if s.suspect || full {
		next := content{s.starts, maps.Clone(s.all)}
		if err = next.apply(changes); err == nil {
			err = s.replaceLocked(&next)
		}
		if err == nil {
			s.keepRoom()
		}
	}
	if full && removes && !s.suspect && noRoom(err) || err == nil && !s.suspect && !full {
		err = s.appendLocked(changes)
	} else {
		s.suspect = s.suspect && err != nil
	}
	if err != nil {
		return fmt.Errorf("write the records of NFSv4 clients in %s: %w", s.path, err)
	}
	return s.apply(changes)
}

// appendLocked writes a transaction at the end, and syncs it. Then it updates the length in the head, so
// that read can tell damage from a transaction that a crash cut short. It sets suspect unless it succeeds,
// or fails because there was no room for the transaction: then nothing before it is in doubt, and the next
// transaction takes its place.
func (s *Store) appendLocked(changes []byte) error {
	b, sum := appendTransaction(nil, changes, s.sum)
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		s.suspect = !noRoom(err)
		return err
	}
	s.suspect = true
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.size, s.sum = s.size+int64(len(b)), sum
	if _, err := s.file.WriteAt(appendHead(nil, s.size, s.sum), 0); err != nil {
		return err
	}
	s.suspect = false
	return nil
}
