package records

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Summary is what a file of records contains.
type Summary struct {
	// Version is that of the format, or 0 for a database of an earlier version of the server.
	Version uint32
	Starts  uint32
	Clients []state.Record
}

// Read reads a file of records that a Store may have open. It changes nothing. The error is a *Damaged if the daemon would
// not trust the content.
func Read(path string) (*Summary, error) {
	b, err := readUnlocked(path)
	if err != nil {
		return nil, err
	}
	s, c, err := summary(path, b)
	if err == nil {
		err = c.countable(path)
	}
	return s, err
}

// readUnlocked reads the file at path with the checks of a Store.
func readUnlocked(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFile(path, f, func() error { return nil })
}

func summary(path string, b []byte) (*Summary, content, error) {
	var c content
	var version uint32
	var err error
	if isLog(b) {
		if c, _, err = read(b); err == nil {
			head := cursor{b: b[len(magic):]}
			version = head.uint32()
		}
	} else {
		c, err = readElsewhere(b)
	}
	if err != nil {
		return nil, c, damageOf(path, err)
	}
	return &Summary{version, c.starts, c.list()}, c, nil
}

// readElsewhere is readEarlier for a database beside which nothing may be written.
func readElsewhere(b []byte) (c content, err error) {
	dir, err := os.MkdirTemp("", "nfsrdmad")
	if err != nil {
		return c, fmt.Errorf("%w %s: %w", errCopy, os.TempDir(), err)
	}
	defer os.RemoveAll(dir)
	return readEarlier(filepath.Join(dir, "records"), b)
}

// Copy returns the content of a file for a backup. A Store that is opened on it counts from a number of starts that the
// server has hardly had since: client IDs contain that number, and must not repeat (RFC 8881 §2.4.1).
func (s *Store) Copy() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("copy %s: %w", s.path, os.ErrClosed)
	}
	return s.content.copied(), nil
}

// CopyOf is Copy for a file that no Store has open. It converts a database of an earlier version.
func CopyOf(path string) ([]byte, error) {
	b, err := readUnlocked(path)
	if err != nil {
		return nil, err
	}
	_, c, err := summary(path, b)
	if err != nil {
		return nil, err
	}
	return c.copied(), nil
}

// leastAhead is the least distance of the starts of a copy from those of the original, both ahead and, by the lower 16 bits,
// behind: client IDs contain only these bits.
const leastAhead = 4096

func (c *content) copied() []byte {
	ahead := *c
	ahead.starts = min(c.starts+leastAhead+rand.Uint32N(1<<16-2*leastAhead), max(c.starts, mostStarts-leastAhead))
	b, _ := ahead.whole()
	return b
}
