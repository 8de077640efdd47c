package state

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// After a client with 8,192 locks closes the file or is removed, another client can lock exactly
// the bytes of these locks. In the test, a second client has locks on the bytes between them, by
// one lock-owner; they stay. When these have ended too, a program of this machine can lock all
// bytes.
func TestVeryManyLocksOfAFileEnd(t *testing.T) {
	const n = 8192
	for _, end := range []struct {
		name string
		of   func(m *Manager, a *Client, ref *Ref)
	}{
		{"CLOSE", func(m *Manager, _ *Client, ref *Ref) {
			_, s := m.CloseOpen(ref, false)
			is(t, "CLOSE", s, ok)
		}},
		{"the client goes", func(m *Manager, a *Client, _ *Ref) {
			if err := m.evict([]*Client{a}, Greedy); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			fs, key := shownBy(t, dir, "f")
			m := newManager(t)
			var refs []*Ref
			for i := range 3 {
				c := clientFrom(t, m, fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprint("client ", i))
				refs = append(refs, &Ref{ID: open(t, m, c, "owner", key, AccessBoth, 0), Client: c, Key: key})
			}
			lock := func(i int, owner string, at uint64) Verdict {
				_, _, s := m.Lock(&LockArgs{Ref: *refs[i], New: true, OwnerName: []byte(owner), Offset: at, Length: 1, Write: true, Claimer: fs})
				return s
			}
			for i := range uint64(n) {
				is(t, "LOCK of the first", lock(0, fmt.Sprint(i), 4*i), ok)
				is(t, "LOCK of the other", lock(1, "one", 4*i+2), ok)
			}
			is(t, "LOCK of the third", lock(2, "one", 4*(n/2)), LockConflict)
			end.of(m, refs[0].Client, refs[0])
			is(t, "LOCK of the third, of what is free", lock(2, "one", 4*(n/2)), ok)
			is(t, "LOCK of the third, of what is not", lock(2, "one", 4*(n/2)+2), LockConflict)
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			local := func(start int64) error {
				return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: 1})
			}
			if err := local(4*(n/2) + 2); err == nil {
				t.Error("a program of this machine gets what a client has locked")
			}
			for _, ref := range refs[1:] {
				_, s := m.CloseOpen(ref, false)
				is(t, "CLOSE", s, ok)
			}
			if err := local(4*(n/2) + 2); err != nil {
				t.Errorf("a program of this machine, when nothing is locked: %v", err)
			}
		})
	}
}
