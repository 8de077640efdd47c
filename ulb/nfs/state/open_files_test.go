package state

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A scarce file system has a limited number of open files.
type scarce struct {
	openCount
	most    int
	refused atomic.Int64 // calls of OpenRefused
}

func (s *scarce) OpenFiles() (open, most int) { return int(s.n.Load()), s.most }

func (s *scarce) OpenRefused() { s.refused.Add(1) }

// openScarce opens file n for c. It closes the file again if the Manager refuses the open.
func openScarce(m *Manager, fs *scarce, c *Client, n int) Verdict {
	if _, most := fs.OpenFiles(); int(fs.n.Load()) >= most {
		return TryLater // the error of the file system
	}
	h, _ := vfs.MakeHandle(fmt.Append(nil, n))
	f := fs.open()
	_, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: FileKey{fs, h}, Access: AccessRead, File: f})
	if s != ok {
		f.Close()
	}
	return s
}

// fillScarce opens files until c is refused twice in a row, and returns their number.
func fillScarce(t *testing.T, m *Manager, fs *scarce, c *Client, first int) (n int) {
	t.Helper()
	refused := false
	for {
		switch s := openScarce(m, fs, c, first+n); {
		case n > fs.most:
			t.Fatal("there is no bound")
		case s == ok:
			refused = false
			n++
		case s != TryLater && s != Full && s != FullOfOwn:
			t.Fatal(s)
		case refused:
			return n
		default:
			refused = true
			time.Sleep(time.Second)
		}
	}
}

// If clients open as many files as they can, clients of other addresses can still open some.
// Several opens of one file by clients of one address count once.
func TestAddressesShareOpenFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 400}
		const greedy = 6
		for i := range greedy {
			c := clientFrom(t, m, fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprint("greedy ", i))
			if n := fillScarce(t, m, fs, c, 1000*i); n < fs.most/(greedy+1)/4 {
				t.Errorf("address %d may open %d files", i, n)
			}
			if n := fs.n.Load(); n > int64(fs.most) {
				t.Fatalf("%d files are open", n)
			}
		}
		modest := clientFrom(t, m, "10.0.1.1", "modest")
		if n := fillScarce(t, m, fs, modest, 1_000_000); n < fs.most/(greedy+1)/4 {
			t.Errorf("another address may open %d files", n)
		}
		other := clientFrom(t, m, "10.0.1.1", "other")
		if s := openScarce(m, fs, other, 1_000_000); s != ok {
			t.Errorf("a file that is open: %v", s)
		}
		m.Revoke(fs)
		if n := fs.n.Load(); n != 0 {
			t.Errorf("%d files are left open", n)
		}
		for a, o := range m.clients.from {
			if len(o.files.opens)+len(o.files.byDomain) != 0 {
				t.Errorf("%v has %d files", a, len(o.files.opens))
			}
		}
	})
}

// A client that has most of the open files itself, and is refused another one, is not told to wait,
// because its program would wait for ever. A client of another address is. The file system is told of
// each refusal.
func TestWhoHasMostOpenFilesIsNotToldToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 400}
		a := clientFrom(t, m, "10.0.0.1", "a")
		n := fillScarce(t, m, fs, a, 0)
		refused := fs.refused.Load()
		if s := openScarce(m, fs, a, n); s != FullOfOwn {
			t.Errorf("a client that has %d of %d files: %v", n, fs.most, s)
		}
		if told := fs.refused.Load() - refused; told != 1 {
			t.Errorf("the file system is told of %d refusals, want 1", told)
		}
		b := clientFrom(t, m, "10.0.0.2", "b")
		for i := range fs.most {
			if s := openScarce(m, fs, b, 1000+i); s == TryLater || s == Full {
				return
			} else if s != ok {
				t.Fatalf("a client that has %d files: %v", i, s)
			}
		}
		t.Error("the other client was never refused")
	})
}

// After the close of a file, the clients of an address may open exactly one other file. If they
// have the file open twice, they may do so only after the second close.
func TestClosedFileGivesRoomForOneOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 400}
		a := clientFrom(t, m, "10.0.0.1", "a")
		most := fillScarce(t, m, fs, a, 0)
		shut := func(c *Client, n int) {
			t.Helper()
			h, _ := vfs.MakeHandle(fmt.Append(nil, n))
			for s := range c.holding.states {
				if s.Kind == KindOpen && s.Key.Handle == h {
					if _, verdict := m.CloseOpen(&Ref{ID: s.ID(), Client: c, Key: s.Key}, false); verdict != ok {
						t.Fatal(verdict)
					}
					return
				}
			}
			t.Fatalf("file %d is not open", n)
		}
		for n := range 8 { // few enough that the lease of a does not run out
			shut(a, n)
			if again := fillScarce(t, m, fs, a, 1000*(n+1)); again != 1 {
				t.Fatalf("one of %d files was closed, and %d others were opened", most, again)
			}
		}
		other := clientFrom(t, m, "10.0.0.1", "other")
		if s := openScarce(m, fs, other, most-1); s != ok {
			t.Fatalf("a file that the address has open: %v", s)
		}
		shut(a, most-1)
		if n := fillScarce(t, m, fs, a, 1_000_000); n != 0 {
			t.Errorf("a file was closed that the address still has open, and %d others were opened", n)
		}
	})
}

// If the file system cannot open further files, the Manager closes the files of clients whose
// leases ran out.
func TestFilesOfTheExpiredGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 100}
		n := fillScarce(t, m, fs, clientFrom(t, m, "10.0.0.1", "early"), 0)
		time.Sleep(2 * m.Lease())
		if int(fs.n.Load()) != n {
			t.Errorf("%d of %d files are open that no other client wanted", fs.n.Load(), n)
		}
		if late := fillScarce(t, m, fs, clientFrom(t, m, "10.0.0.2", "late"), 1000); late < n-2 {
			t.Errorf("%d files, after %d of one that is gone", late, n)
		}
	})
}

// The Manager evicts clients whose leases ran out before the file system can open no further files.
// So a client that opens files slowly is never refused.
func TestFilesOfTheExpiredGiveWayInGoodTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 100}
		n := fillScarce(t, m, fs, clientFrom(t, m, "10.0.0.1", "early"), 0)
		time.Sleep(2 * m.Lease())
		late := clientFrom(t, m, "10.0.0.2", "late")
		for i := range n - 2 {
			if s := openScarce(m, fs, late, 1000+i); s != ok {
				t.Fatalf("file %d of %d: %v", i, n, s)
			}
			time.Sleep(time.Second)
		}
	})
}

// If the leases of other clients ran out, a refused client of minor version 0 gets NFS4ERR_DELAY,
// because the Manager makes room by evicting them. If all leases are valid, the client gets an
// error that tells it not to try again.
func TestFilesOfTheExpiredGiveWayInMinorVersion0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		fs := &scarce{most: 100}
		client := func(name string) (c *Client, o *Owner) {
			c = newClient(m, 0, name)
			o, _ = m.OwnerOf(c, []byte("owner"), false)
			return c, o
		}
		opens := func(c *Client, o *Owner, n int) Verdict {
			h, _ := vfs.MakeHandle(fmt.Append(nil, n))
			f := fs.open()
			o.confirmed.Store(true)
			_, s := m.Open(&OpenArgs{Client: c, Owner: o, Key: FileKey{fs, h}, Access: AccessRead, File: f})
			if s != ok {
				f.Close()
			}
			return s
		}
		early, o := client("early")
		n := 0
		for opens(early, o, n) == ok {
			n++
		}
		if n < fs.most/2 {
			t.Fatalf("one client may open %d of %d files", n, fs.most)
		}
		late, p := client("late")
		if s := opens(late, p, n); s != FullOfOwn {
			t.Errorf("while all have leases: %v", s)
		}
		for range 4 {
			time.Sleep(m.Lease() / 2)
			m.Renew(late)
		}
		if s := opens(late, p, n); s != TryLater {
			t.Errorf("beside one that has none: %v", s)
		}
		time.Sleep(time.Second)
		if s := opens(late, p, n); s != ok {
			t.Errorf("again: %v", s)
		}
	})
}
