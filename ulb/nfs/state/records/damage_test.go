package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// many returns n records, which take several pages of the file.
func many(n int) (all []state.Record) {
	for i := range n {
		r := state.Record{Kind: 1, Owner: fmt.Sprintf("client %d %s", i, strings.Repeat("x", i%200)), Principal: "uid 0"}
		if i%2 == 0 {
			r.Address = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		}
		all = append(all, r)
	}
	return all
}

// written returns the content of a file after n clients were added, some of them removed, and
// some added again.
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

// The Store notices each changed or missing byte of its file. Otherwise a client could reclaim
// state without the right to do so, or a client ID could be reused.
func TestDamageIsNoticed(t *testing.T) {
	for _, n := range []int{4, 300} {
		whole := written(t, n)
		truth, _, err := read(whole)
		if err != nil {
			t.Fatal(err)
		}
		if n == 300 && len(truth.all) != n-n/3+n/4 {
			t.Fatalf("%d clients are there", len(truth.all))
		}
		step := 1 + len(whole)/2500
		for i := 0; i < len(whole); i += step {
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			if _, _, err := read(b); err == nil {
				t.Fatalf("%d clients: byte %d: not noticed", n, i)
			}
			if _, _, err := read(whole[:i]); err == nil {
				t.Fatalf("cut to %d bytes of %d: not noticed", i, len(whole))
			}
		}
	}
}

// If a crash cuts off a change at any byte, or leaves a part of it unwritten, the file still
// has all changes that were reported as done, and the last change completely or not at all.
func TestCrashWithinAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	s := open(t, path)
	must(t, s.Put(many(20)))
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, s.Put([]state.Record{{Kind: 1, Owner: "one more"}}))
	must(t, s.Remove(many(1)))
	after, err := os.ReadFile(path)
	must(t, err)
	// The disk has the head of the first change only, not the heads of the two later changes. The
	// first of these two changes was reported as done, so it was synced together with the head of
	// the change before it.
	first := len(before) + transactionHead + len(appendPut(nil, &state.Record{Kind: 1, Owner: "one more"}))
	_, sum, _ := transaction(after[len(before):], s.sumAt(t, before))
	old, middle := bytes.Clone(before[:headSize]), appendHead(nil, int64(first), sum)
	for _, c := range []struct {
		head     []byte
		from, to int // the change that the crash interrupts, by its offsets in the file
		has      int // number of clients before the change in these bytes
	}{{old, len(before), first, 20}, {middle, first, len(after), 21}} {
		for cut := c.from; cut <= c.to; cut++ {
			cuts := [][]byte{slices.Concat(c.head, after[headSize:cut])}
			zeros := slices.Concat(cuts[0], make([]byte, c.to-cut)) // the file is already longer, but the bytes after cut are still zero
			late := slices.Concat(c.head, after[headSize:c.from], make([]byte, cut-c.from), after[cut:c.to])
			for _, b := range append(cuts, zeros, late) {
				got, _, err := read(b)
				if err != nil {
					t.Fatalf("cut at %d of %d to %d: %v", cut, c.from, c.to, err)
				}
				want := c.has
				if bytes.Equal(b[c.from:], after[c.from:c.to]) {
					want += 1 - 2*(c.has-20) // the change adds one client, or removes one
				}
				if len(got.all) != want {
					t.Fatalf("cut at %d of %d to %d: %d clients, not %d", cut, c.from, c.to, len(got.all), want)
				}
			}
		}
	}
}

// sumAt returns the checksum at the end of a file.
func (s *Store) sumAt(t *testing.T, b []byte) uint32 {
	t.Helper()
	at, sum := headSize, uint32(0)
	for at < len(b) {
		changes, next, ok := transaction(b[at:], sum)
		if !ok {
			t.Fatal("it is not whole")
		}
		at, sum = at+transactionHead+len(changes), next
	}
	return sum
}

// Open refuses anything that is not a file of records, with an explanation, and does not change
// it.
func TestOpenRefusesAnythingButAFileOfRecords(t *testing.T) {
	whole := written(t, 4)
	for _, c := range []struct {
		name, why string
		make      func(path string) error
	}{
		{"empty", "it is empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{"a few bytes", "neither a file of records", func(p string) error { return os.WriteFile(p, []byte("abc"), 0o600) }},
		{"text", "neither a file of records", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no database ", 1000)), 0o600) }},
		{"half", "cut short", func(p string) error { return os.WriteFile(p, whole[:len(whole)/2], 0o600) }},
		{"of a later version", "later version", func(p string) error {
			b := binary.BigEndian.AppendUint32([]byte(magic), version+1)
			b = append(b, make([]byte, headSize-4-len(b))...)
			return os.WriteFile(p, binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), 0o600)
		}},
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
			if d, ok := errors.AsType[*Damaged](err); !ok || !strings.Contains(d.Error(), path) || !strings.Contains(d.Reason(), c.why) {
				t.Errorf("opened: %v", err)
			}
			if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || before.Size() != after.Size() || before.Mode() != after.Mode() {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}

// OpenAnyhow sets a file with damaged content aside, and begins a new one without clients. It refuses what may
// be a whole file.
func TestDamagedFileIsSetAside(t *testing.T) {
	whole := written(t, 4)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for _, c := range []struct {
		name    string
		content []byte
		mode    os.FileMode
		aside   bool
	}{
		{"empty", nil, 0o600, true}, {"cut short", whole[:len(whole)/2], 0o600, true}, {"one bit", damaged, 0o600, true},
		{"text", []byte("no database"), 0o600, true}, {"writable for others", damaged, 0o666, false}, {"whole", whole, 0o600, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clients")
			must(t, os.WriteFile(path, c.content, c.mode))
			must(t, os.Chmod(path, c.mode))
			s, damage, err := OpenAnyhow(path)
			if (err != nil) != (c.mode != 0o600) {
				t.Fatal(err)
			}
			kept, lost := os.ReadFile(path + Aside)
			if (damage != nil) != c.aside || c.aside && !bytes.Equal(kept, c.content) || !c.aside && !errors.Is(lost, os.ErrNotExist) {
				t.Errorf("damage %v, set aside: %d bytes, %v", damage, len(kept), lost)
			}
			if err != nil {
				return
			}
			if n, known := begin(t, s); n == 0 || len(known) > 0 && c.aside {
				t.Errorf("start %d with %d clients", n, len(known))
			}
			must(t, s.Put(many(3)))
			must(t, s.Close())
			s, damage, err = OpenAnyhow(path)
			if err != nil || damage != nil || len(s.list()) < 3 {
				t.Errorf("the next start: %v, %v", damage, err)
			}
			s.Close()
		})
	}
}

// If the file is lost, the numbers of starts in a new file differ from those in the lost one.
// Otherwise client IDs would be reused.
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

// Open converts the database of an earlier version of the server, once. It refuses an incomplete
// database.
func TestDatabaseOfEarlierVersion(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	long := func(b []byte, s string) []byte { return appendString(b, s) }
	for _, c := range []struct {
		name   string
		bucket string
		k, v   []byte
		want   state.Record
	}{
		{"the first one", "clients", []byte("\x01host"), []byte("uid 0"), state.Record{Kind: 1, Owner: "host", Principal: "uid 0"}},
		{"the last one", "records", []byte("a digest"), append(long(long(nil, "\x00host"), "uid 0"), "192.0.2.1"...),
			state.Record{Owner: "host", Principal: "uid 0", Address: address}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clients")
			db, err := bolt.Open(path, 0o600, nil)
			must(t, err)
			must(t, db.Update(func(tx *bolt.Tx) error {
				meta, err := tx.CreateBucket([]byte("server"))
				must(t, err)
				all, err := tx.CreateBucket([]byte(c.bucket))
				must(t, err)
				return errors.Join(meta.Put([]byte("starts"), []byte{0, 0, 1, 0}), all.Put(c.k, c.v))
			}))
			must(t, db.Close())
			b, err := os.ReadFile(path)
			must(t, err)
			for range 2 {
				s := open(t, path)
				if n, known := begin(t, s); n < 257 || len(known) != 1 || known[0] != c.want {
					t.Errorf("start %d, %+v", n, known)
				}
				must(t, s.Close())
			}
			// Clear the file from page i to its end. The first two pages are the heads.
			for i := range 4 {
				cut := bytes.Clone(b)
				clear(cut[i*os.Getpagesize():])
				must(t, os.WriteFile(path, cut, 0o600))
				s, err := Open(path)
				if _, ok := errors.AsType[*Damaged](err); !ok {
					t.Errorf("without what follows page %d: %v", i, err)
				}
				if s != nil {
					s.Close()
				}
			}
		})
	}
}

// Open converts a database of an earlier version that has many pages, but refuses it if the
// references between its pages form a circle.
func TestDatabaseWithACircle(t *testing.T) {
	const clients = 2000
	path := filepath.Join(t.TempDir(), "clients")
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		server, err := tx.CreateBucket([]byte("server"))
		must(t, err)
		all, err := tx.CreateBucket([]byte("clients"))
		must(t, err)
		for i := range clients {
			must(t, all.Put(binary.BigEndian.AppendUint32([]byte{1}, uint32(i)), []byte("uid 0")))
		}
		return server.Put([]byte("starts"), []byte{0, 0, 1, 0})
	}))
	must(t, db.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	s := open(t, path)
	if _, known := begin(t, s); len(known) != clients {
		t.Errorf("%d clients were taken over", len(known))
	}
	must(t, s.Close())
	circles, size := 0, os.Getpagesize()
	for at := 2 * size; at < len(b); at += size {
		if page := b[at:]; binary.NativeEndian.Uint16(page[8:]) == 1 { // a branch page
			for entry := range int(binary.NativeEndian.Uint16(page[10:])) {
				copy(page[16+16*entry+8:], page[:8])
			}
			circles++
		}
	}
	if circles == 0 {
		t.Fatal("there is no branch page")
	}
	must(t, os.WriteFile(path, b, 0o600))
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no tree") {
		t.Errorf("a circle: %v", err)
	}
}

// After a failure of the disk, the Store writes the whole file again before the next change. The
// failed write may be on the disk in part, even if later syncs succeed.
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
	a, b, c := state.Record{Kind: 1, Owner: "a"}, state.Record{Kind: 1, Owner: "b"}, state.Record{Kind: 1, Owner: "c"}
	must(t, s.Put([]state.Record{a, b}))
	files[len(files)-1].Close() // a closed file, so that each write fails
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

// A file that many clients made large is small again after the next start.
func TestFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	s := open(t, path)
	all := many(200)
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

// A file does not grow without limit by changes: the Store rewrites it.
func TestFileIsWrittenAnewWhenItIsMostlyOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	s := open(t, path)
	all := many(100)
	largest := int64(0)
	for range 100 {
		must(t, s.Put(all))
		at, err := os.Stat(path)
		must(t, err)
		largest = max(largest, at.Size())
	}
	must(t, s.Remove(all[1:]))
	if fresh, _ := s.whole(); largest > 4*int64(len(fresh))+2*slack+100*400 {
		t.Errorf("it has grown to %d bytes", largest)
	}
	must(t, s.Close())
	if _, known := begin(t, open(t, path)); len(known) != 1 || known[0] != all[0] {
		t.Errorf("%d clients are left", len(known))
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, 4))
	f.Add(written(f, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, _, err := read(b); err == nil {
			if again, _ := c.whole(); !reads(again, &c) {
				t.Error("what was read is not what is written")
			}
		}
	})
}

// reads reports whether read decodes the file b to the content c.
func reads(b []byte, c *content) bool {
	got, _, err := read(b)
	return err == nil && got.starts == c.starts && maps.Equal(got.all, c.all)
}
