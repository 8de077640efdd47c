package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/statedir"
)

// A daemon that starts while a command looks at the state directory waits for the command.
func TestStartWaitsForALookAtTheState(t *testing.T) {
	defer func(p time.Duration) { patience = p }(patience)
	patience = time.Minute
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	look, err := os.Create(filepath.Join(dir, statedir.Lock))
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	if err := unix.Flock(int(look.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { ended <- unix.Flock(int(look.Fd()), unix.LOCK_UN) })
	s, err := openState(dir)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

// A daemon marks its state directory before it writes anything else there.
func TestMarkIsWrittenFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if n, err := statedir.Format(dir); n != 1 || err != nil {
		t.Errorf("format %d, %v", n, err)
	}
	if is, _ := os.ReadDir(dir); len(is) != 2 { // the mark, and the lock
		t.Errorf("it has %v", is)
	}
}
