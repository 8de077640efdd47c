package records

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// many are records that take several pages.
func many(n int) (all []state.Record) {
	for i := range n {
		r := state.Record{Minor: 1, Owner: fmt.Sprintf("client %d %s", i, strings.Repeat("x", i%200)), Principal: "uid 0"}
		if i%2 == 0 {
			r.Address = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		}
		all = append(all, r)
	}
	return all
}

// written is the content of a file that clients were added to and removed from.
func written(t testing.TB, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clients")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	all := many(n)
	for _, err := range []error{s.Put(all), s.Remove(all[:n/3]), s.Put(all[:n/4]), s.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// No byte of a file is changed, and none is missing at its end, without that being noticed
// where it makes a difference: a client would be let claim that must not, or an identity come
// again.
func TestDamageIsNoticed(t *testing.T) {
	for _, n := range []int{4, 300} {
		whole := written(t, n)
		var truth Store
		if err := truth.take(whole); err != nil {
			t.Fatal(err)
		}
		if n == 300 && len(truth.all) != n-n/3+n/4 {
			t.Fatalf("%d clients are there", len(truth.all))
		}
		step := 1 + len(whole)/2500
		for i := 0; i < len(whole); i += step {
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			var s Store
			if err := s.take(b); err == nil && (s.starts != truth.starts || !maps.Equal(s.all, truth.all)) {
				t.Fatalf("%d clients: byte %d: not noticed", n, i)
			}
		}
		// A file may be longer than what is in use of it.
		var r reader
		r.b = whole
		if _, err := r.head(); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < int(r.pages*r.pageSize); i += 1 + len(whole)/500 {
			var s Store
			if err := s.take(whole[:i]); err == nil {
				t.Fatalf("cut to %d bytes of %d: not noticed", i, len(whole))
			}
		}
	}
}

// Every head that is not whole is noticed: the other one may lead to clients that were
// removed since.
func TestOldHeadIsNotTaken(t *testing.T) {
	whole := written(t, 4)
	for page := range 2 {
		b := bytes.Clone(whole)
		b[page*os.Getpagesize()+pageHeader+48]++ // the transaction's number
		var s Store
		if err := s.take(b); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("head %d", page+1)) {
			t.Errorf("head %d: %v", page+1, err)
		}
	}
}

// Whatever is in the place of the file is refused in words, and left as it is.
func TestWhatIsNoFileOfRecordsIsRefused(t *testing.T) {
	whole := written(t, 4)
	for _, c := range []struct {
		name, why string
		make      func(path string) error
	}{
		{"empty", "it is empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{"a few bytes", "cut short", func(p string) error { return os.WriteFile(p, []byte("abc"), 0o600) }},
		{"text", "does not begin as a database", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no database ", 1000)), 0o600) }},
		{"half", "cut short", func(p string) error { return os.WriteFile(p, whole[:len(whole)/2], 0o600) }},
		{"a directory", "not a regular file", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"a FIFO", "not a regular file", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"writable for others", "chmod 0600", func(p string) error {
			if err := os.WriteFile(p, whole, 0o600); err != nil {
				return err
			}
			return os.Chmod(p, 0o666)
		}},
		{"huge", "more than it can need", func(p string) error {
			if err := os.WriteFile(p, whole, 0o600); err != nil {
				return err
			}
			return os.Truncate(p, largest+1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clients")
			must(t, c.make(path))
			before, err := os.Stat(path)
			must(t, err)
			s, err := Open(path)
			if err == nil {
				s.Close()
			}
			if d, ok := errors.AsType[*Damaged](err); !ok || !strings.Contains(d.Error(), path) || !strings.Contains(d.Why, c.why) {
				t.Errorf("opened: %v", err)
			}
			if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || before.Size() != after.Size() || before.Mode() != after.Mode() {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}

// The number of starts of a file that is made anew is not one of the file before: identities
// of clients would come again.
func TestFileMadeAnewCountsElsewhere(t *testing.T) {
	seen := map[uint32]bool{}
	for range 4 {
		s := open(t, filepath.Join(t.TempDir(), "clients"))
		n, _ := begin(t, s)
		if n == 0 || n > mostStarts {
			t.Errorf("start %d", n)
		}
		seen[n] = true
	}
	if len(seen) == 1 {
		t.Error("each begins with the same number")
	}
}

// A file of a version without sums and addresses is taken as it is.
func TestFileOfEarlierVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(server)
		must(t, err)
		all, err := tx.CreateBucket(names)
		must(t, err)
		return errors.Join(meta.Put(starts, []byte{0, 0, 1, 0}), all.Put([]byte("\x01host"), []byte("uid 0")))
	}))
	must(t, db.Close())
	n, known := begin(t, open(t, path))
	if n != 257 || len(known) != 1 || known[0] != (state.Record{Minor: 1, Owner: "host", Principal: "uid 0"}) {
		t.Errorf("start %d, %+v", n, known)
	}
}

// After the disk has failed the file is written anew before anything else: what was written
// when it failed may be on the disk in part, whatever it says later.
func TestRecordsAfterTheDiskHasFailed(t *testing.T) {
	var files []*os.File
	openFile = func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag, mode)
		files = append(files, f)
		return f, err
	}
	defer func() { openFile = os.OpenFile }()
	path := filepath.Join(t.TempDir(), "clients")
	s := open(t, path)
	a, b, c := state.Record{Minor: 1, Owner: "a"}, state.Record{Minor: 1, Owner: "b"}, state.Record{Minor: 1, Owner: "c"}
	must(t, s.Put([]state.Record{a, b}))
	files[len(files)-1].Close() // so that each write fails
	if err := s.Put([]state.Record{c}); err == nil {
		t.Fatal("the disk did not fail")
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(path+".new/x", nil, 0o600))
	if err := s.Remove([]state.Record{a}); err == nil {
		t.Fatal("the file could be written anew")
	}
	must(t, os.RemoveAll(path+".new"))
	opened := len(files)
	must(t, s.Remove([]state.Record{a}))
	if len(files) == opened {
		t.Error("the file was not written anew")
	}
	opened = len(files)
	must(t, s.Put([]state.Record{a}))
	if len(files) != opened {
		t.Error("the file was written anew once more")
	}
	must(t, s.Remove([]state.Record{a}))
	must(t, s.Close())
	if _, known := begin(t, open(t, path)); len(known) != 1 || known[0] != b {
		t.Errorf("left: %+v", known)
	}
}

// A file that has grown for a flood of clients is small again after a start.
func TestFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	s := open(t, path)
	all := many(3000)
	must(t, s.Put(all))
	must(t, s.Remove(all))
	must(t, s.Close())
	before, err := os.Stat(path)
	must(t, err)
	must(t, open(t, path).Close())
	after, err := os.Stat(path)
	must(t, err)
	if after.Size() > before.Size()/4 {
		t.Errorf("%d bytes, of %d", after.Size(), before.Size())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, 4))
	f.Add(written(f, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Store
		if s.take(b) != nil {
			return
		}
		for key := range s.all {
			if len(key) == 0 {
				t.Error("a client has no name")
			}
		}
	})
}

// Pages that lead to themselves are refused, and not followed without end.
func TestPagesInACircle(t *testing.T) {
	const size = 4096
	b := make([]byte, 4*size)
	for i := range uint64(2) {
		page := b[i*size:]
		h := page[pageHeader:]
		order.PutUint64(page, i)
		order.PutUint16(page[8:], headPage)
		order.PutUint32(h, headMagic)
		order.PutUint32(h[4:], headVersion)
		order.PutUint32(h[8:], size)
		order.PutUint64(h[16:], 2) // all begins there
		order.PutUint64(h[40:], 4)
		order.PutUint64(h[48:], i)
		sum := fnv.New64a()
		sum.Write(h[:headSum])
		order.PutUint64(h[headSum:], sum.Sum64())
	}
	// Page 2 leads to page 3 twice, and page 3 to page 2.
	for i, to := range map[uint64]uint64{2: 3, 3: 2} {
		page := b[i*size:]
		order.PutUint64(page, i)
		order.PutUint16(page[8:], branchPage)
		order.PutUint16(page[10:], 2)
		for k := range 2 {
			order.PutUint64(page[pageHeader+k*elementSize+8:], to)
		}
	}
	debug.SetMaxStack(16 << 20) // which a walk without end reaches at once
	var s Store
	if err := s.take(b); !errors.Is(err, errPage) {
		t.Error(err)
	}
}
