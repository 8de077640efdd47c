package nfs40_test

import (
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

const lease = 90 * time.Second // the lease time of test servers

// renewals are operations that renew a client's lease (RFC 7530 §9.5).
var renewals = map[string]func(s *lockSite) []op{
	"RENEW": func(s *lockSite) []op { return []op{renew(s.id0())} },
	"OPEN": func(s *lockSite) []op {
		return []op{putRootFH, s.o.openHow("new", readMode, denyNone, creating(wire.Unchecked4, mode(0o600)))}
	},
	"READ":              func(s *lockSite) []op { return join(at("file"), read(s.id, 0, 1)) },
	"READ by a lock's":  func(s *lockSite) []op { return join(at("file"), read(s.lock, 0, 1)) },
	"WRITE":             func(s *lockSite) []op { return join(at("file"), write(s.id, 0, "x")) },
	"SETATTR":           func(s *lockSite) []op { return join(at("file"), setattr(s.id, size(3))) },
	"OPEN_DOWNGRADE":    func(s *lockSite) []op { return join(at("file"), s.o.downgrade(s.id, bothMode, denyNone)) },
	"LOCK":              func(s *lockSite) []op { return join(at("file"), s.l.lock(s.lock, wire.ReadLt, 0, 5)) },
	"LOCKT":             func(s *lockSite) []op { return join(at("file"), s.l.test(wire.ReadLt, 0, 5)) },
	"LOCKU":             func(s *lockSite) []op { return join(at("file"), s.l.unlock(s.lock, 1000, 5)) },
	"RELEASE_LOCKOWNER": func(s *lockSite) []op { return []op{s.client.locker("nobody").release()} },
}

func TestLeaseIsRenewed(t *testing.T) {
	for name, make := range renewals {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLocks(t)
				s.first(t, ok, wire.WriteLt, 0, 10)
				time.Sleep(lease * 2 / 3)
				s.run(t, ok, make(s)...)
				s.run(t, ok, renew(s.other.id))
				time.Sleep(lease * 2 / 3)
				s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 0, 5)
			})
		})
	}
}

// Neither SETCLIENTID nor an operation without a stateid renews a lease (RFC 7530 §9.5).
func TestLeaseIsNotRenewed(t *testing.T) {
	for name, make := range map[string]func(s *lockSite) []op{
		"SETCLIENTID":  func(s *lockSite) []op { return []op{setClientID("client", 1)} },
		"READ by none": func(s *lockSite) []op { return join(at("file"), read(anonymous, 0, 1)) },
		"GETATTR":      func(s *lockSite) []op { return join(at("file"), getattr(wire.Fattr4Size)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLocks(t)
				s.first(t, ok, wire.WriteLt, 0, 10)
				time.Sleep(lease * 2 / 3)
				s.run(t, ok, make(s)...)
				s.run(t, ok, renew(s.other.id))
				time.Sleep(lease * 2 / 3)
				s.tested(t, ok, wire.WriteLt, 0, 5)
			})
		})
	}
}

// When another client wants a part of the state of a client whose lease ran out, the first client
// loses all its state. Its next requests get NFS4ERR_EXPIRED (RFC 7530 §9.6.3.2).
func TestExpiredClient(t *testing.T) {
	for name, want := range map[string]func(s *lockSite) []op{
		"a lock":        func(s *lockSite) []op { return join(at("file"), s.m.first(s.other, s.otherID, wire.WriteLt, 5, 1)) },
		"to read":       func(s *lockSite) []op { return join(at("denied"), read(anonymous, 0, 1)) },
		"to write":      func(s *lockSite) []op { return join(at("denied"), write(anonymous, 0, "x")) },
		"to set a size": func(s *lockSite) []op { return join(at("denied"), setattr(anonymous, size(0))) },
		"to remove":     func(s *lockSite) []op { return []op{putRootFH, remove("denied")} },
		"to rename onto it": func(s *lockSite) []op {
			return []op{putRootFH, saveFH, rename("file", "denied"), rename("denied", "file")}
		},
		"an open": func(s *lockSite) []op { return []op{putRootFH, s.other.open("denied", readMode, denyNone)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLocks(t)
				s.o.opensHow(t, "denied", bothMode, denyBoth, creating(wire.Unchecked4, mode(0o666)))
				s.first(t, ok, wire.WriteLt, 0, 10)
				for range 3 {
					time.Sleep(lease * 2 / 3)
					s.run(t, ok, renew(s.other.id))
				}
				s.run(t, ok, want(s)...)
				s.run(t, wire.NFS4ErrExpired, join(at("file"), read(s.id, 0, 1))...)
				s.run(t, wire.NFS4ErrExpired, join(at("file"), write(s.lock, 0, "x"))...)
				s.run(t, wire.NFS4ErrExpired, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
				s.run(t, wire.NFS4ErrExpired, join(at("file"), s.o.close(s.id))...)
				s.run(t, wire.NFS4ErrExpired, renew(s.id0()))
				s.run(t, wire.NFS4ErrExpired, putRootFH, s.o.open("file", readMode, denyNone))
				s.run(t, wire.NFS4ErrExpired, s.l.release())
				// The client registers again.
				id, confirm := s.set(t, "client", 1)
				s.run(t, ok, confirmClientID(id, confirm))
				(&client{peer: s.peer, id: id}).owner("o").opens(t, "file", readMode, denyNone)
			})
		})
	}
}

// A client whose lease ran out keeps its state until another client wants it (RFC 7530 §9.6.3.1).
// Its next request renews the lease. If the client holds locks, the server keeps its state for
// minutes only.
func TestCourtesy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocks(t)
		s.first(t, ok, wire.WriteLt, 0, 10)
		time.Sleep(5 * lease / 2)
		s.run(t, ok, join(at("file"), read(s.id, 0, 1), s.l.lock(s.lock, wire.WriteLt, 20, 10))...)
		s.run(t, ok, renew(s.other.id))
		s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 0, 5)
	})
}

// After the lease of a client has run out, another principal may take its name (RFC 7530
// §9.1.2).
func TestNameOfAnExpiredClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocks(t)
		s.as(1).run(t, wire.NFS4ErrClIDInUse, setClientID("client", 2))
		time.Sleep(lease + time.Second)
		q := s.as(1)
		id, confirm := q.set(t, "client", 2)
		q.run(t, ok, confirmClientID(id, confirm))
		s.oneOf(t, []status{wire.NFS4ErrExpired, wire.NFS4ErrBadStateID}, join(at("file"), read(s.id, 0, 1))...)
	})
}

// An unconfirmed open conflicts with other clients for at most one lease, even if its client keeps
// renewing the lease (RFC 7530 §16.18.5).
func TestUnconfirmedOpenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocks(t)
		for _, o := range []struct {
			o  *owner
			id wire.StateID4
		}{{s.o, s.id}, {s.other, s.otherID}} {
			s.run(t, ok, join(at("file"), o.o.close(o.id))...)
		}
		lazy := s.client.owner("lazy")
		id := opened(t, s.run(t, ok, putRootFH, lazy.open("file", bothMode, denyBoth)), 1).Stateid
		s.run(t, wire.NFS4ErrShareDenied, putRootFH, s.other.open("file", readMode, denyNone))
		for range 8 {
			time.Sleep(lease / 4)
			s.run(t, ok, renew(s.id0()))
			s.run(t, ok, renew(s.other.id))
		}
		s.run(t, ok, putRootFH, s.other.open("file", readMode, denyNone))
		s.run(t, wire.NFS4ErrBadStateID, join(at("file"), lazy.confirm(id))...)
	})
}

// The server forgets a client that does not confirm itself within a lease.
func TestUnconfirmedClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		id, confirm := p.set(t, "x", 1)
		time.Sleep(2 * lease)
		p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(id, confirm))
	})
}
