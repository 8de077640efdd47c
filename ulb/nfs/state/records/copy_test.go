package records

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Read finds what Open would not go on with, though the content is whole.
func TestReadFindsTheEndOfTheStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	c := content{starts: mostStarts}
	b, _ := c.whole()
	must(t, os.WriteFile(path, b, 0o600))
	_, opened := Open(path)
	_, read := Read(path)
	want, _ := errors.AsType[*Damaged](opened)
	if got, ok := errors.AsType[*Damaged](read); !ok || want == nil || *got != *want {
		t.Errorf("read: %v; opened: %v", read, opened)
	}
}

// apart fails unless the client IDs of the next starts of a copy and of its original differ: they have 16 bits of the number.
func apart(t *testing.T, was, is uint32) {
	t.Helper()
	if d := uint16(is - was); is <= was || d < leastAhead || d > 1<<16-leastAhead {
		t.Fatalf("start %d after %d, %d by the bits of client IDs", is, was, d)
	}
}

func TestCopyIsAheadInClientIDs(t *testing.T) {
	c := content{starts: 70000}
	for range 2000 {
		is, _, err := read(c.copied())
		must(t, err)
		apart(t, c.starts, is.starts)
	}
}

// The copy of a database of an earlier version has its clients, and is ahead too. Reading it writes nothing beside it.
func TestCopyOfADatabaseOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "clients")
	const starts = 256
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("server"))
		must(t, err)
		all, err := tx.CreateBucket([]byte("clients"))
		must(t, err)
		return errors.Join(meta.Put([]byte("starts"), binary.BigEndian.AppendUint32(nil, starts)), all.Put([]byte("\x01host"), []byte("uid 0")))
	}))
	must(t, db.Close())
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	must(t, os.Chmod(dir, 0o500))
	b, err := CopyOf(path)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "clients")
	must(t, os.WriteFile(copied, b, 0o600))
	is, err := Read(copied)
	must(t, err)
	apart(t, starts, is.Starts)
	if s, err := Read(path); err != nil || s.Version != 0 || s.Starts != starts || len(s.Clients) != 1 || is.Version != version || len(is.Clients) != 1 || is.Clients[0] != s.Clients[0] {
		t.Errorf("%+v, copied %+v, %v", s, is, err)
	}
	if beside, _ := os.ReadDir(dir); len(beside) != 1 {
		t.Errorf("beside it: %v", beside)
	}
	must(t, os.Truncate(path, 5000))
	if _, err := CopyOf(path); err == nil {
		t.Error("a damaged database is copied")
	}
}
