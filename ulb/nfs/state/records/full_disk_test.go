package records

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// The disk of the file is full. What needs no room still works: a server counts its start, and removes the
// records of clients one by one, all of them. New records are refused, before they use up the room for that.
// When there is room again, they are written.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "clients")
	one := func(i int) []state.Record {
		return []state.Record{{Kind: 1, Owner: fmt.Sprintf("client %d, whose name has the length that names have", i), Principal: "uid 0"}}
	}
	s := open(t, path)
	const clients = 20
	for i := range clients {
		must(t, s.Put(one(i)))
	}
	fill := fillDisk(t, filepath.Join(dir, "fill"))
	starts, _ := begin(t, s)
	for range 2 {
		must(t, s.Close())
		s = open(t, path)
		n, known := begin(t, s)
		if starts++; n != starts || len(known) != clients {
			t.Fatalf("start %d, not %d, with %d clients", n, starts, len(known))
		}
	}
	more := clients
	for s.Put(one(more)) == nil {
		more++
	}
	if more == clients || more > 100*clients {
		t.Errorf("%d clients were recorded", more)
	}
	for i := range more {
		must(t, s.Remove(one(i)))
	}
	must(t, s.Close())
	s = open(t, path)
	if n, known := begin(t, s); n != starts+1 || len(known) != 0 {
		t.Errorf("start %d with %d clients", n, len(known))
	}
	must(t, os.Remove(fill))
	must(t, s.Put(one(0)))
	must(t, s.Close())
	s = open(t, path)
	if _, known := begin(t, s); len(known) != 1 {
		t.Errorf("%d clients", len(known))
	}
}

// fillDisk makes a file that takes all the room of its disk, and returns its name.
func fillDisk(t *testing.T, name string) string {
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return name
}
