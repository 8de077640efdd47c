package state

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// One client cannot hold more locked ranges than its share of Config.Memory allows. LOCK adds
// ranges, and so does a LOCKU in the middle of a range.
func TestRangesOfOneClientAreBounded(t *testing.T) {
	const memory = 1 << 20
	m, err := New(Config{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	l := newLocker(t, m, "client")
	n := uint64(0)
	for ; l.lock(false, n, 1, true) == ok; n += 2 {
		if n > memory {
			t.Fatal("there is no bound")
		}
	}
	if u := m.Usage(); u.Memory > memory/2+4*sizeRange || u.Memory < memory/2 {
		t.Errorf("%+v", u)
	}
	if s := l.lock(false, n, 1, true); s != FullOfOwn {
		t.Errorf("one more: %v", s)
	}
	l.unlock(1000, 1<<64-1)
	l.unlock(0, 1<<64-1)
	if s := l.lock(false, 0, 1<<64-1, true); s != ok {
		t.Fatal(s)
	}
	ref := &Ref{ID: l.id, Client: l.c, Key: fileKey(1)}
	var s Verdict
	for n = 1; ; n += 2 {
		if n > memory {
			t.Fatal("there is no bound to unlocking")
		}
		if ref.ID, s = m.Unlock(ref, n, 1, nil, false); s != ok {
			break
		}
	}
	if s != FullOfOwn || m.Usage().Memory > memory/2+4*sizeRange {
		t.Errorf("%v, with %+v", s, m.Usage())
	}
}

// Usage counts all state that clients hold.
func TestUsage(t *testing.T) {
	m := newManager(t)
	l := newLocker(t, m, "client")
	before := m.Usage()
	if want := (Usage{Opens: 1, Owners: 1, Files: 1, Memory: before.Memory}); before != want || before.Memory <= 0 {
		t.Errorf("%+v", before)
	}
	if s := l.lock(false, 0, 1, true); s != ok {
		t.Fatal(s)
	}
	after := m.Usage()
	if want := (Usage{Opens: 1, Locks: 1, Owners: 2, Ranges: 1, Files: 1, Memory: after.Memory}); after != want || after.Memory <= before.Memory {
		t.Errorf("%+v", after)
	}
}

// clientFrom makes a client at an address. The client may open files.
func clientFrom(t *testing.T, m *Manager, address, owner string) *Client {
	t.Helper()
	x := m.ExchangeID(&Identity{Owner: []byte(owner), Caller: Caller{Address: netip.MustParseAddr(address)}}, false)
	if s := m.Confirm(x.Client); s != ok {
		t.Fatal(s)
	}
	m.ReclaimComplete(x.Client, nil)
	return x.Client
}

// fill opens files until c is refused three times in a row, and returns their number.
func fill(t *testing.T, m *Manager, c *Client) (n int) {
	t.Helper()
	refused := 0
	for {
		switch _, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(n), Access: AccessRead}); {
		case n > 1<<16:
			t.Fatal("there is no bound")
		case s == ok:
			refused = 0
			n++
		case s != TryLater && s != Full && s != FullOfOwn:
			t.Fatal(s)
		case refused == 2: // the first sweep may leave a loser time to hear of what it lost (tellWithin)
			return n
		default:
			refused++
			time.Sleep(time.Second)
		}
	}
}

// If clients open as many files as they can, there is still memory for clients of other addresses,
// however many clients an address has. All addresses of an IPv6 host (its /64 prefix) count as one.
func TestAddressesShareTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory, greedy = 4 << 20, 9
		m := manager(t, Config{Memory: memory})
		defer m.Close() // after the unlock below
		for i := range greedy {
			for k := range 3 {
				c := clientFrom(t, m, fmt.Sprintf("2001:db8:0:%d::%d", i, k), fmt.Sprint("greedy ", i, " ", k))
				if n := fill(t, m, c); k == 0 && n == 0 {
					t.Errorf("address %d may open nothing", i)
				}
				if u := m.Usage().Memory; u > memory {
					t.Fatalf("%d bytes are in use", u)
				}
			}
		}
		modest := clientFrom(t, m, "10.0.0.1", "modest")
		if fill(t, m, modest); modest.memory() < memory/4 { // a site's part is a third
			t.Errorf("another client may have %d bytes", modest.memory())
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for n := range m.clients.from { // those whose leases have run out may have lost all to the last one
			if n != modest.known.address && m.files.memory.AddressHolds(n) > memory/2 {
				t.Errorf("%v has %d bytes", n, m.files.memory.AddressHolds(n))
			}
		}
	})
}

// If a client of minor version 0 is refused although it has no more than its part of the memory, it
// gets NFS4ERR_DELAY, because the Manager then takes opens from clients of other addresses.
func TestAnAddressGetsItsPartInMinorVersion0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory, greedy = 4 << 20, 3
		m := manager(t, Config{Memory: memory})
		defer m.Close()
		for i := range greedy {
			fill(t, m, clientFrom(t, m, fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprint("greedy ", i)))
		}
		modest := newClient(m, 0, "modest")
		o, s := m.OwnerOf(modest, []byte("owner"), false)
		if s != ok {
			t.Fatal(s)
		}
		o.confirmed.Store(true)
		delayed := 0
		for n := 0; modest.memory() < memory/4; n++ {
			switch _, s := m.Open(&OpenArgs{Client: modest, Owner: o, Key: fileKey(n), Access: AccessRead}); s {
			case ok:
			case TryLater:
				if delayed++; delayed > 100 {
					t.Fatalf("there is no room, for %d bytes are held", modest.memory())
				}
				time.Sleep(time.Second)
			default:
				t.Fatalf("beside %d bytes of its own: %v", modest.memory(), s)
			}
		}
		if delayed == 0 {
			t.Error("it was never refused")
		}
	})
}

// If more than half of the memory is in use, the Manager evicts clients whose leases ran out, first
// those of the address that holds most. It stops when less than half is in use.
func TestStateWithoutALeaseGivesWayToMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 1 << 20
		m := manager(t, Config{Memory: memory})
		defer m.Close()
		large, small := clientFrom(t, m, "10.0.0.1", "large"), clientFrom(t, m, "10.0.0.2", "small")
		open(t, m, small, "owner", fileKey(1), AccessRead, 0)
		n := fill(t, m, large)
		time.Sleep(2 * m.Lease())
		if m.Client(large.ID) != nil || m.Client(small.ID) == nil {
			t.Errorf("large stays: %v, small stays: %v", m.Client(large.ID) != nil, m.Client(small.ID) != nil)
		}
		if again := fill(t, m, clientFrom(t, m, "10.0.0.3", "next")); again < n-2 {
			t.Errorf("another client may open %d files, not %d", again, n)
		}
	})
}

// The number of locked ranges of a file and of their stateids is limited. Beyond the limit, LOCK
// fails with an error that tells the client not to try again; locks of other files still succeed.
func TestRangesOfOneFileAreBounded(t *testing.T) {
	m := manager(t, Config{Memory: 1 << 30})
	defer m.Close()
	for kind, refused := range map[ClientKind]Verdict{Minor0: FullOfOwn, Sessions: FullOfOwn} {
		c := newClient(m, kind, "client")
		owner := func(name string, locks bool) *Owner {
			o, s := m.OwnerOf(c, []byte(name), locks)
			if s != ok {
				t.Fatal(s)
			}
			o.confirmed.Store(true)
			return o
		}
		lockers := 0
		begin := func(key FileKey, at uint64) (StateID, Verdict) {
			lockers++
			o, s := m.Open(&OpenArgs{Client: c, Owner: owner("opener", false), Key: key, Access: AccessRead})
			if s != ok {
				t.Fatal(s)
			}
			a := LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, LockOwner: owner(fmt.Sprint(lockers), true), Offset: at, Length: 1}
			if kind == 0 {
				a.Ref.Client = nil
			}
			id, _, s := m.Lock(&a)
			return id, s
		}
		ranges, owners := fileKey(10*int(kind)+1), fileKey(10*int(kind)+2)
		id, s := begin(ranges, 0)
		ref := Ref{ID: id, Client: c, Key: ranges}
		if kind == 0 {
			ref.Client = nil
		}
		n := uint64(1)
		for ; s == ok; n++ {
			if n > 2*maxFileRanges {
				t.Fatal("there is no bound to the ranges of a file")
			}
			ref.ID = id
			id, _, s = m.Lock(&LockArgs{Ref: ref, Offset: 2 * n, Length: 1})
		}
		if s != refused || n < maxFileRanges/4-2 {
			t.Errorf("minor version %d: %d ranges, then %v", kind, n, s)
		}
		n = 0
		for s = ok; s == ok; n++ {
			if n > 2*maxFileLocks {
				t.Fatal("there is no bound to the locks of a file")
			}
			_, s = begin(owners, 2*n)
		}
		if s != refused || n < maxFileLocks/4-2 {
			t.Errorf("minor version %d: %d stateids, then %v", kind, n, s)
		}
	}
}

// However many ranges of a file one client locks, another client of its address can lock some, and
// so can a client of another address. If a client is refused because of other clients' locks, the
// error tells it to try again.
func TestLocksOfOneFileAreShared(t *testing.T) {
	m := newManager(t)
	key := fileKey(1)
	take := func(c *Client, more uint64, byOwner bool) (n int, s Verdict) {
		o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("opener"), Key: key, Access: AccessRead})
		is(t, "OPEN", s, ok)
		a := LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, OwnerName: []byte("locker"), Offset: more, Length: 1}
		for ; s == ok; n++ {
			if byOwner {
				a.OwnerName = fmt.Append(nil, n)
			} else {
				a.Offset += 2
			}
			_, _, s = m.Lock(&a)
		}
		return n - 1, s
	}
	for _, c := range []struct {
		name    string
		most    int
		byOwner bool
	}{{"ranges", maxFileRanges, false}, {"stateids", maxFileLocks, true}} {
		t.Run(c.name, func(t *testing.T) {
			greedy, neighbour := clientFrom(t, m, "10.0.0.1", "greedy"), clientFrom(t, m, "10.0.0.1", "neighbour")
			other := clientFrom(t, m, "10.0.0.2", "other")
			for _, w := range []struct {
				c       *Client
				least   int
				verdict Verdict
			}{
				{greedy, c.most/4 - 2, FullOfOwn},
				{neighbour, c.most/8 - 2, Full},
				{other, c.most/8 - 2, Full},
			} {
				n, s := take(w.c, 0, c.byOwner)
				if n < w.least || s != w.verdict {
					t.Errorf("%s has %d and then %v, want %d or more and %v", w.c.Owner, n, s, w.least, w.verdict)
				}
			}
			for _, l := range []*Client{greedy, neighbour, other} {
				m.removeNow(l)
			}
			nothingLeft(t, m)
		})
	}
}

// If the memory is full, the Manager forgets owners without state to make room for new owners.
func TestIdleOwnersGiveWay(t *testing.T) {
	m := manager(t, Config{Memory: 1 << 20})
	defer m.Close()
	c := v40(t, m, me())
	for i := range 5000 {
		_, s := m.OwnerOf(c, fmt.Append(nil, "owner ", i), i%2 == 0)
		is(t, "an owner", s, ok)
	}
	if u := m.Usage(); u.Memory > 1<<20 || u.Owners < 100 {
		t.Errorf("%+v", u)
	}
}

// With the usual memory.state a client opens 100,000 files by one owner. Beyond its part it gets an error at once, if it holds
// most of the memory: a program would wait for ever. The administrator hears of it, at most once a minute.
func TestHundredThousandOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told int
		m := manager(t, Config{Memory: 640 << 20 * 3 / 8, Lease: 24 * time.Hour, Event: func(e *Event) {
			if e.Kind == Refused && len(e.Clients) == 1 {
				told++
			}
		}})
		defer m.Close()
		c := clientFrom(t, m, "192.0.2.1", "client")
		n, s := 0, ok
		for s == ok {
			_, s = m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(n), Access: AccessRead})
			n++
		}
		is(t, "the OPEN beyond the part", s, FullOfOwn)
		if n <= 100_000 || told != 1 {
			t.Errorf("%d files were opened, and %d events tell of the limit", n-1, told)
		}
		for range 10 {
			_, s = m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(n), Access: AccessRead})
			is(t, "a further OPEN", s, FullOfOwn)
		}
		time.Sleep(refusedEvery)
		m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(n), Access: AccessRead})
		if told != 2 {
			t.Errorf("after a minute there are %d events", told)
		}
	})
}
