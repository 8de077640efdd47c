package nfs4suite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

const lease = 30 * time.Second

// timely runs a test under testing/synctest, with a clock that advances only while the test
// waits.
func timely(t *testing.T, cfg state.Config, test func(t *testing.T, site *nfs4test.Site)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Lease = lease
		test(t, newSite(t, nil, cfg))
	})
}

// A client whose lease ended keeps its state until another client's request conflicts with it
// (RFC 8881 §8.4.2.4 leaves that to the server).
func TestCourtesyWithoutConflict(t *testing.T) {
	timely(t, state.Config{}, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, write))
		id := s.lock(&o, "locker", wire.WriteLt, 0, 10)
		time.Sleep(3 * lease)
		other := newSession(t, site, 1, "other")
		p := other.open(openArgs("file", "owner", read, 0)) // does not conflict
		other.want("LOCKT elsewhere", ok, putFH(p.fh), lockTest("l", wire.WriteLt, 100, 1))
		s.want("WRITE", ok, putFH(o.fh), writeOp(o.Stateid, 0, "0"), writeOp(id, 0, "0"))
		other.refused("OPEN beside the client that came back", wire.NFS4ErrShareDenied, openArgs("file", "owner", write, 0))
		r := other.want("LOCKT", wire.NFS4ErrDenied, putFH(p.fh), lockTest("l", wire.WriteLt, 0, 1))
		other.deniedBy(&r[1], s.client, "locker", 0, 10, true)
	})
}

// When a request of another client conflicts with the state of a client whose lease ended, the
// server removes all state of the latter. The latter then gets NFS4ERR_BADSESSION.
func TestCourtesyEndsWithAConflict(t *testing.T) {
	for _, c := range []struct {
		what string
		want func(other *session, fh []byte)
	}{
		{"OPEN", func(s *session, fh []byte) { s.open(openArgs("file", "owner", write, 0)) }},
		{"OPEN to deny", func(s *session, fh []byte) { s.open(openArgs("file", "owner", read, read)) }},
		{"OPEN to cut", func(s *session, fh []byte) {
			s.open(creating(openArgs("file", "owner", read, 0), wire.Unchecked4, attrs().size(0).f, 0))
		}},
		{"LOCK", func(s *session, fh []byte) {
			o := s.open(openArgs("file", "owner", read, 0))
			s.lock(&o, "locker", wire.ReadLt, 5, 1)
		}},
		{"LOCKT", func(s *session, fh []byte) {
			s.want("LOCKT", ok, putFH(fh), lockTest("locker", wire.ReadLt, 5, 1))
		}},
		{"WRITE without an open", func(s *session, fh []byte) { s.want("WRITE", ok, putFH(fh), writeOp(anonymous, 0, "0")) }},
		{"a size without an open", func(s *session, fh []byte) { s.want("SETATTR", ok, putFH(fh), setattr(anonymous, attrs().size(3))) }},
		{"REMOVE", func(s *session, fh []byte) { s.want("REMOVE", ok, putRoot, remove("file")) }},
		{"RENAME", func(s *session, fh []byte) {
			s.makeFile("other")
			s.want("RENAME", ok, putRoot, saveFH, rename("other", "file"))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			timely(t, state.Config{Records: newRecords()}, func(t *testing.T, site *nfs4test.Site) {
				s := newSession(t, site, 1, "client")
				s.makeFile("file")
				o := s.open(openArgs("file", "owner", both, write))
				s.lock(&o, "locker", wire.WriteLt, 0, 10)
				p := site.Other(1)
				p.T = t
				other := newSessionOf(p, "other")
				time.Sleep(lease - time.Second)
				s.want("SEQUENCE", ok)
				other.want("SEQUENCE", ok)
				time.Sleep(lease - time.Second)
				other.refused("OPEN within the lease", wire.NFS4ErrShareDenied, openArgs("file", "x", write, 0))
				time.Sleep(2 * time.Second)
				c.want(other, o.fh)
				r := s.do()
				is(t, "SEQUENCE of the client", r.Status, wire.NFS4ErrBadSession)
				is(t, "CREATE_SESSION of the client", createSession(s.Peer, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
				again := newSession(t, site, 1, "client")
				again.want("its stateid", wire.NFS4ErrBadStateID, putFH(o.fh), readOp(o.Stateid, 0, 1))
			})
		})
	}
}

// A SEQUENCE in any slot renews the lease, even without further operations.
func TestSequenceRenews(t *testing.T) {
	timely(t, state.Config{}, func(t *testing.T, site *nfs4test.Site) {
		s, other := newSession(t, site, 1, "client"), newSession(t, site, 1, "other")
		s.makeFile("file")
		s.open(openArgs("file", "owner", both, both))
		for range 10 {
			time.Sleep(lease / 2)
			is(t, "SEQUENCE", s.with(s.next(3)).Status, ok)
			s.last[3]++
			other.refused("OPEN", wire.NFS4ErrShareDenied, openArgs("file", "owner", read, 0))
		}
	})
}

// The server removes a client whose lease ended when its courtesy time is over, even without a
// conflict. It removes an unconfirmed client when its lease ends.
func TestClientsEnd(t *testing.T) {
	timely(t, state.Config{Courtesy: 5 * lease}, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		id := exchanged(s.Peer, "unconfirmed", 1)
		time.Sleep(3 * lease)
		is(t, "CREATE_SESSION of an unconfirmed client", createSession(s.Peer, createArgs(id.Clientid, 1)).Status, wire.NFS4ErrStaleClientID)
		s.want("SEQUENCE", ok)
		time.Sleep(8 * lease)
		is(t, "SEQUENCE after the courtesy", s.do().Status, wire.NFS4ErrBadSession)
	})
}

// Another principal may use the name of a client whose lease ended.
func TestExchangeIDOfAnExpiredName(t *testing.T) {
	timely(t, state.Config{Records: newRecords()}, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		s.open(openArgs("file", "owner", both, both))
		s.UID = 7
		is(t, "within the lease", exchange(s.Peer, exchangeArgs("client", 1)).Status, wire.NFS4ErrClIDInUse)
		time.Sleep(2 * lease)
		res := exchanged(s.Peer, "client", 1)
		if res.Clientid == s.client || res.Flags&wire.Exchgid4FlagConfirmedR != 0 {
			t.Errorf("%+v", res)
		}
		s.UID = 0
		is(t, "SEQUENCE of the one before", s.do().Status, wire.NFS4ErrBadSession)
	})
}

// A restart of the server ends the state of its clients. In the grace period clients may only
// reclaim their state, and the server refuses requests for new state (RFC 8881 §8.4.2).
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := newRecords()
		cfg := state.Config{Lease: lease, Grace: 2 * lease, Records: known}
		first := newSite(t, nil, cfg)
		s := newSession(t, first, 1, "client")
		lost := newSession(t, first, 1, "lost") // this client does not reclaim
		lost.makeFile("lost")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, write))
		id := s.lock(&o, "locker", wire.WriteLt, 0, 10)
		lost.open(openArgs("lost", "owner", both, both))

		second := newSite(t, first.FS, cfg)
		p := second.Peer(1)
		gone := s.over(p)
		is(t, "SEQUENCE of the life before", gone.do().Status, wire.NFS4ErrBadSession)
		is(t, "CREATE_SESSION of the life before", createSession(p, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
		is(t, "DESTROY_SESSION of the life before", alone(p, destroySession(s.id), nil), wire.NFS4ErrBadSession)
		is(t, "DESTROY_CLIENTID of the life before", alone(p, destroyClient(s.client), nil), wire.NFS4ErrStaleClientID)
		res := exchanged(p, "client", 1)
		if res.Flags&wire.Exchgid4FlagConfirmedR != 0 || res.Clientid == s.client {
			t.Errorf("%+v", res)
		}
		s = sessionOf(p, createArgs(res.Clientid, 1))
		if flags := s.flags(); flags&wire.Seq4StatusRestartReclaimNeeded == 0 {
			t.Errorf("SEQUENCE does not tell of the restart: %#x", flags)
		}
		s.want("a stateid of the life before", wire.NFS4ErrBadStateID, putFH(o.fh), readOp(o.Stateid, 0, 1))
		s.want("TEST_STATEID", ok, op(wire.OpTestStateID, testArgs(o.Stateid, id)))

		stranger := newSession(t, second, 1, "stranger")
		claim := func() *wire.Open4Args {
			a := claiming(openArgs("", "owner", both, write), wire.ClaimPrevious)
			a.Claim.DelegateType = wire.OpenDelegateNone
			return a
		}
		stranger.want("a stranger's claim", wire.NFS4ErrNoGrace, putFH(o.fh), open(claim()))
		stranger.refused("a stranger's OPEN", wire.NFS4ErrGrace, openArgs("file", "owner", read, 0))
		stranger.refused("a stranger's OPEN to create", wire.NFS4ErrGrace, creating(openArgs("new", "owner", both, 0), wire.Unchecked4, attrs().f, 0))
		for _, o := range [][]nfs4test.Op{
			{putFH(o.fh), readOp(anonymous, 0, 1)}, {putFH(o.fh), writeOp(anonymous, 0, "0")}, {putFH(o.fh), setattr(anonymous, attrs().size(0))},
			{putFH(o.fh), writeOp(bypass, 0, "0")}, {putFH(o.fh), lockTest("l", wire.ReadLt, 0, 1)}, {putRoot, remove("file")}, {putRoot, saveFH, rename("file", "x")},
			{putRoot, lookup("file"), saveFH, putRoot, link("x")},
		} {
			stranger.want("in grace", wire.NFS4ErrGrace, o...)
		}
		stranger.want("in grace", ok, putFH(o.fh), readOp(bypass, 0, 1), putRoot, lookup("file"), getattr(wire.Fattr4Size), access(1), putRoot, readdir(0, 4096), create(wire.NF4Dir, "dir"))

		s.refused("the client's OPEN before it has claimed", wire.NFS4ErrGrace, openArgs("file", "owner2", read, 0))
		r := s.must("CLAIM_PREVIOUS", putFH(o.fh), open(claim()), getFH)
		claimed := opened{s.openRes(&r[1]), s.handle(&r[2])}
		s.want("LOCK that does not claim", wire.NFS4ErrGrace, putFH(o.fh), lockNew(claimed.Stateid, "locker", wire.WriteLt, 0, 10))
		l := lockNew(claimed.Stateid, "locker", wire.WriteLt, 0, 10)
		l.Args.(*wire.Lock4Args).Reclaim = true
		s.want("LOCK that claims", ok, putFH(o.fh), l)
		s.want("READ and WRITE", ok, putFH(o.fh), readOp(claimed.Stateid, 0, 1), writeOp(claimed.Stateid, 0, "0"))
		s.want("RECLAIM_COMPLETE", ok, op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
		if flags := s.flags(); flags&wire.Seq4StatusRestartReclaimNeeded != 0 {
			t.Errorf("SEQUENCE tells of the restart after RECLAIM_COMPLETE: %#x", flags)
		}
		s.want("CLAIM_PREVIOUS after RECLAIM_COMPLETE", wire.NFS4ErrNoGrace, putFH(o.fh), open(claim()))
		s.refused("OPEN while others may claim", wire.NFS4ErrGrace, openArgs("file", "owner2", read, 0))
		s.want("LOCK to claim after RECLAIM_COMPLETE", wire.NFS4ErrNoGrace, putFH(o.fh), func() nfs4test.Op {
			l := lockNew(claimed.Stateid, "locker", wire.WriteLt, 20, 10)
			l.Args.(*wire.Lock4Args).Reclaim = true
			return l
		}())

		for range 5 {
			time.Sleep(lease / 2)
			s.want("SEQUENCE", ok)
			stranger.want("SEQUENCE", ok)
		}
		stranger.refused("OPEN of what was claimed", wire.NFS4ErrShareDenied, openArgs("file", "owner", write, 0))
		stranger.want("LOCKT of what was claimed", wire.NFS4ErrDenied, putFH(o.fh), lockTest("l", wire.ReadLt, 0, 1))
		stranger.open(openArgs("lost", "owner", both, both))
		late := sessionOf(p, createArgs(exchanged(p, "lost", 1).Clientid, 1))
		late.want("CLAIM_PREVIOUS after grace", wire.NFS4ErrNoGrace, putRoot, lookup("lost"), open(claim()))
	})
}

func (s *session) flags() uint32 {
	s.t.Helper()
	r := s.do()
	return s.sequenceRes(r).StatusFlags
}

// The grace period ends when all recorded clients have sent RECLAIM_COMPLETE. A server without
// recorded clients has no grace period.
func TestGraceEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := state.Config{Lease: lease, Records: newRecords()}
		first := newSite(t, nil, cfg)
		s := newSession(t, first, 1, "client")
		s.makeFile("file") // no grace period, because no client was recorded
		second := newSite(t, first.FS, cfg)
		stranger := newSession(t, second, 1, "stranger")
		stranger.open(openArgs("file", "owner", read, 0)) // which conflicts with nothing that the client may claim
		stranger.refused("OPEN with a deny mode", wire.NFS4ErrGrace, openArgs("file", "owner", read, both))
		newSession(t, second, 1, "client")
		synctest.Wait()
		stranger.open(openArgs("file", "another owner", both, 0))
		stranger.refused("OPEN with a deny mode, beside the others", wire.NFS4ErrShareDenied, openArgs("file", "owner", read, both))
	})
}

// A client cannot reclaim state after a restart if another client may have got conflicting state
// since: after its lease ended, or after a restart at which it did not reclaim (RFC 8881 §8.4.3).
func TestEdgeConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := state.Config{Lease: lease, Records: newRecords()}
		site := newSite(t, nil, cfg)
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, both))
		time.Sleep(2 * lease) // the client sends nothing, so its lease ends
		other := newSession(t, site, 1, "other")
		p := other.open(openArgs("file", "owner", both, both))
		other.close(&p)
		again := newSite(t, site.FS, cfg)
		s = sessionOf(again.Peer(1), createArgs(exchanged(again.Peer(1), "client", 1).Clientid, 1))
		s.want("the first edge condition", wire.NFS4ErrNoGrace, putFH(o.fh), open(claiming(openArgs("", "owner", both, both), wire.ClaimPrevious)))
	})
	synctest.Test(t, func(t *testing.T) {
		cfg := state.Config{Lease: lease, Grace: lease, Records: newRecords()}
		site := newSite(t, nil, cfg)
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, both))
		second := newSite(t, site.FS, cfg) // the client does not reclaim in this grace period
		time.Sleep(2 * lease)
		other := newSession(t, second, 1, "other")
		p := other.open(openArgs("file", "owner", both, both))
		other.close(&p)
		third := newSite(t, site.FS, cfg)
		s = sessionOf(third.Peer(1), createArgs(exchanged(third.Peer(1), "client", 1).Clientid, 1))
		s.want("the second edge condition", wire.NFS4ErrNoGrace, putFH(o.fh), open(claiming(openArgs("", "owner", both, both), wire.ClaimPrevious)))
	})
}
