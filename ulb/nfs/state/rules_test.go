package state

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// OPEN_DOWNGRADE leaves those of an owner's opens that go no further than it says, in
// what they deny as well (RFC 8881 §18.18.3).
func TestDowngradeKeepsOpensWithinItsDenyMode(t *testing.T) {
	for _, c := range []struct {
		name                 string
		opens                [][2]Access // access and deny, in their order
		access, deny         Access
		want                 Status
		wantAccess, wantDeny Access // where want is NFS4_OK
	}{
		{"the one that denies goes", [][2]Access{{AccessRead, 0}, {AccessRead, AccessWrite}}, AccessRead, 0, ok, AccessRead, 0},
		{"the one that denies more goes", [][2]Access{{AccessRead, AccessWrite}, {AccessRead, 0}}, AccessRead, 0, ok, AccessRead, 0},
		{"the one that denies stays", [][2]Access{{AccessRead, 0}, {AccessRead, AccessWrite}}, AccessRead, AccessWrite, ok, AccessRead, AccessWrite},
		{"the one that writes goes", [][2]Access{{AccessWrite, 0}, {AccessRead, 0}}, AccessRead, 0, ok, AccessRead, 0},
		{"none denies that", [][2]Access{{AccessRead, 0}, {AccessRead, 0}}, AccessRead, AccessWrite, nfs4wire.NFS4ErrInvalid, 0, 0},
		{"none is without its denial", [][2]Access{{AccessRead, AccessWrite}}, AccessRead, 0, nfs4wire.NFS4ErrInvalid, 0, 0},
		{"none reads alone", [][2]Access{{AccessBoth, 0}}, AccessRead, 0, nfs4wire.NFS4ErrInvalid, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManager(t)
			client := newClient(m, 1, "client")
			var id nfs4wire.StateID4
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
			access, deny := m.files.byKey[fileKey(1)].shares.wanted(), m.files.byKey[fileKey(1)].shares.denied()
			m.mu.Unlock()
			if access != c.wantAccess || deny != c.wantDeny {
				t.Errorf("the file is open for %d, denied %d, want %d, %d", access, deny, c.wantAccess, c.wantDeny)
			}
		})
	}
}

// A stateid is its client's alone, and a request of minor version 0, which does not say
// who sends it, names none of a later version's (RFC 8881 §8.2.1, §2.4).
func TestStateidsAreTheirClientsOwn(t *testing.T) {
	m := newManager(t)
	one, other := newClient(m, 1, "one"), newClient(m, 1, "other")
	id := open(t, m, one, "owner", fileKey(1), AccessRead, 0)
	for _, c := range []struct {
		name string
		by   *Client
		want Status
	}{
		{"its client", one, ok},
		{"another client", other, nfs4wire.NFS4ErrBadStateID},
		{"a request of minor version 0", nil, nfs4wire.NFS4ErrBadStateID},
	} {
		if _, s := m.Find(&id, c.by); s != c.want {
			t.Errorf("%s: %v, want %v", c.name, s, c.want)
		}
		if _, s := m.Resolve(&Ref{ID: id, Client: c.by, Key: fileKey(1)}, 0); s != c.want {
			t.Errorf("%s, about its file: %v, want %v", c.name, s, c.want)
		}
	}
}

// While the record of a client whose lease ran out is being removed, the client gets
// nothing new: what it held is about to be another's.
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
			is(t, "OPEN", s, nfs4wire.NFS4ErrDelay)
			_, _, s = m.Lock(&LockArgs{
				Ref: Ref{ID: id, Client: c, Key: fileKey(1)}, New: true, OwnerName: []byte("owner"), Length: 1,
			})
			is(t, "LOCK", s, nfs4wire.NFS4ErrDelay)
		}
		if err := m.Evict(c); err != nil || !asked {
			t.Fatalf("%v, asked meanwhile: %v", err, asked)
		}
		nothingLeft(t, m)
	})
}

// What one life of the server has named is not named so in another: client IDs and
// stateids of before are told from its own (RFC 8881 §2.4, §8.2.1).
func TestNamesOfOneLifeAreNotThoseOfTheNext(t *testing.T) {
	epochs, ids := map[uint32]bool{}, map[uint64]bool{}
	var before nfs4wire.StateID4
	one := func(t *testing.T, m *Manager) {
		pass(2 * leaseTime) // the time of grace
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
