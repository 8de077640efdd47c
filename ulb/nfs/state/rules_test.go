package state

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// OPEN_DOWNGRADE keeps the owner's opens whose access and deny bits are within the new ones (RFC
// 8881 §18.18.3).
func TestDowngradeKeepsOpensWithinItsDenyMode(t *testing.T) {
	for _, c := range []struct {
		name                 string
		opens                [][2]Access // access and deny, in their order
		access, deny         Access
		want                 Verdict
		wantAccess, wantDeny Access // valid if want is NFS4_OK
	}{
		{"the one that denies goes", [][2]Access{{AccessRead, 0}, {AccessRead, AccessWrite}}, AccessRead, 0, ok, AccessRead, 0},
		{"the one that denies more goes", [][2]Access{{AccessRead, AccessWrite}, {AccessRead, 0}}, AccessRead, 0, ok, AccessRead, 0},
		{"the one that denies stays", [][2]Access{{AccessRead, 0}, {AccessRead, AccessWrite}}, AccessRead, AccessWrite, ok, AccessRead, AccessWrite},
		{"the one that writes goes", [][2]Access{{AccessWrite, 0}, {AccessRead, 0}}, AccessRead, 0, ok, AccessRead, 0},
		{"none denies that", [][2]Access{{AccessRead, 0}, {AccessRead, 0}}, AccessRead, AccessWrite, Invalid, 0, 0},
		{"none is without its denial", [][2]Access{{AccessRead, AccessWrite}}, AccessRead, 0, Invalid, 0, 0},
		{"none reads alone", [][2]Access{{AccessBoth, 0}}, AccessRead, 0, Invalid, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManager(t)
			client := newClient(m, 1, "client")
			var id StateID
			for _, o := range c.opens {
				id = open(t, m, client, "owner", fileKey(1), o[0], o[1])
			}
			now, s := m.Downgrade(&Ref{ID: id, Client: client, Key: fileKey(1)}, c.access, c.deny)
			if s != c.want {
				t.Fatalf("%v, want %v", s, c.want)
			}
			if s != ok {
				return
			}
			if now.Seqid != id.Seqid+1 {
				t.Errorf("the seqid is %d behind %d", now.Seqid, id.Seqid)
			}
			m.mu.Lock()
			opens := m.files.byID[idOf(1)].opens
			deny := opens.denied()
			var access Access
			for _, o := range opens {
				access |= o.access
			}
			m.mu.Unlock()
			if access != c.wantAccess || deny != c.wantDeny {
				t.Errorf("the file is open for %d, denied %d, want %d, %d", access, deny, c.wantAccess, c.wantDeny)
			}
		})
	}
}

// A stateid is valid only for its own client. A request of minor version 0, which does not
// name its client, cannot use stateids of later versions (RFC 8881 §8.2.1, §2.4).
func TestStateidsAreTheirClientsOwn(t *testing.T) {
	m := newManager(t)
	one, other := newClient(m, 1, "one"), newClient(m, 1, "other")
	id := open(t, m, one, "owner", fileKey(1), AccessRead, 0)
	for _, c := range []struct {
		name string
		by   *Client
		want Verdict
	}{
		{"its client", one, ok},
		{"another client", other, UnknownID},
		{"a request of minor version 0", nil, UnknownID},
	} {
		if _, s := m.Find(&id, c.by); s != c.want {
			t.Errorf("%s: %v, want %v", c.name, s, c.want)
		}
		if _, s := m.Resolve(&Ref{ID: id, Client: c.by, Key: fileKey(1)}, 0); s != c.want {
			t.Errorf("%s, about its file: %v, want %v", c.name, s, c.want)
		}
	}
}

// While the Manager removes the record of a client whose lease ran out, the client gets no new
// state, because another client is about to get its state.
func TestClientThatIsAboutToGoBeginsNothing(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		c := complete(t, m, identity("client", 1, "me"))
		id := open(t, m, c, "owner", fileKey(1), AccessBoth, 0)
		pass(2 * leaseTime)
		asked := false
		d.slow = func() {
			asked = true
			_, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(2), Access: AccessRead})
			is(t, "OPEN", s, TryLater)
			_, _, s = m.Lock(&LockArgs{
				Ref: Ref{ID: id, Client: c, Key: fileKey(1)}, New: true, OwnerName: []byte("owner"), Length: 1,
			})
			is(t, "LOCK", s, TryLater)
		}
		if err := m.Evict(c); err != nil || !asked {
			t.Fatalf("%v, asked meanwhile: %v", err, asked)
		}
		nothingLeft(t, m)
	})
}

// A run of the server does not reuse the client IDs and stateids of an earlier run. It recognizes
// the IDs of an earlier run (RFC 8881 §2.4, §8.2.1).
func TestNamesOfOneLifeAreNotThoseOfTheNext(t *testing.T) {
	epochs, ids := map[uint32]bool{}, map[uint64]bool{}
	var before StateID
	one := func(t *testing.T, m *Manager) {
		pass(2 * leaseTime) // the grace period
		c := complete(t, m, me())
		if epochs[m.Epoch()] || m.Epoch()%256 != 0 || ids[c.ID] {
			t.Errorf("epoch %#x with client %#x, after %v", m.Epoch(), c.ID, ids)
		}
		epochs[m.Epoch()], ids[c.ID] = true, true
		if _, s := m.Find(&before, c); s == ok {
			t.Errorf("the stateid %v of another life is good", before)
		}
		before = open(t, m, c, "owner", fileKey(1), AccessRead, 0)
	}
	lives(t, &disk{}, one, one, one)
}

// A denied LOCK reports the exact range of the conflicting lock, also for a lock to the end
// of the file (RFC 8881 §18.10.3, §18.11.3).
func TestDeniedIsToldTheWholeOfTheOtherLock(t *testing.T) {
	const toEnd = 1<<64 - 1
	for _, c := range []struct{ offset, length uint64 }{{10, 1}, {10, 10}, {0, 1 << 32}, {toEnd - 5, 5}, {7, toEnd}} {
		m := newManager(t)
		holder, other := newLocker(t, m, "holder"), newLocker(t, m, "other")
		is(t, "the holder", holder.lock(false, c.offset, c.length, true), ok)
		_, locked, s := m.Lock(&LockArgs{
			Ref: Ref{ID: other.open, Client: other.c, Key: fileKey(1)}, New: true, OwnerName: []byte("other"), Length: toEnd,
		})
		is(t, "LOCK", s, LockConflict)
		tested, s := m.TestLock(other.c, []byte("other"), fileKey(1), 0, toEnd, false, nil, nil)
		is(t, "LOCKT", s, LockConflict)
		want := Denied{Offset: c.offset, Length: c.length, Write: true, ClientID: holder.c.ID, Owner: "locker of holder"}
		if *locked != want || *tested != want {
			t.Errorf("LOCK is told %+v, LOCKT %+v, want %+v", *locked, *tested, want)
		}
	}
}

// Each use of a file by a caller without an open is refused by one deny bit at most: a read
// by deny-read, a write and the removal of a name by deny-write (RFC 8881 §9.7, §18.25.4).
func TestEachUseAsksForItsDenyMode(t *testing.T) {
	for _, c := range []struct {
		name string
		use  Use
		deny Access
	}{
		{"READ", UseRead, AccessRead}, {"WRITE", UseWrite, AccessWrite}, {"REMOVE", UseRemove, AccessWrite},
		{"RENAME", UseRename, 0}, {"LINK", UseLink, 0}, {"chmod", UseAttributes, 0},
		{"READ with the stateid Bypass", UseReadAnyway, 0},
	} {
		for deny := range AccessBoth + 1 {
			m := newManager(t)
			fs := &struct{ vfs.FileSystem }{}
			open(t, m, newClient(m, 1, "client"), "owner", FileKey{fs, fileKey(1).Handle}, AccessRead, deny)
			want := Yes
			if deny&c.deny != 0 {
				want = No
			}
			if a := anonymously(m, fs, fileKey(1), c.use); a != want {
				t.Errorf("%s of a file that is open denying %d: answer %d, want %d", c.name, deny, a, want)
			}
		}
	}
}
