package nfs41

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A SEQUENCE renews its client's lease, also one that comes again because its reply was
// lost (RFC 8881 §8.3), and one that fails does not.
func TestSequenceRenewsTheLease(t *testing.T) {
	const lease = time.Minute
	for _, c := range []struct {
		name   string
		by     func(s *session) wire.NFSStat4
		status wire.NFSStat4
		stays  bool
	}{
		{"a new request", func(s *session) wire.NFSStat4 { return s.run(rootOp).Status }, wire.NFS4OK, true},
		{"one that comes again", func(s *session) wire.NFSStat4 {
			again := s.sequenceOp(0)
			again.Sequenceid--
			return s.with(again, rootOp).Status
		}, wire.NFS4OK, true},
		{"one out of order", func(s *session) wire.NFSStat4 {
			later := s.sequenceOp(0)
			later.Sequenceid++
			return s.with(later, rootOp).Status
		}, wire.NFS4ErrSeqMisordered, false},
		{"nothing", func(*session) wire.NFSStat4 { return wire.NFS4OK }, wire.NFS4OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, _ := site(t, Config{}, state.Config{Lease: lease})
				s := newClientSession(st.Peer(1), "client")
				want(t, "the first", s.run(rootOp), wire.NFS4OK, 2)
				time.Sleep(lease * 3 / 4)
				is(t, c.name, c.by(s), c.status)
				time.Sleep(lease * 3 / 4)
				evict(st, s.client)
				if stays := st.State.Client(s.client) != nil; stays != c.stays {
					t.Errorf("the client stays: %v, want %v", stays, c.stays)
				}
			})
		})
	}
}

// evict sends a client away if its lease has run out.
func evict(s *nfs4test.Site, id uint64) {
	s.T.Helper()
	if err := s.State.Evict(s.State.Client(id)); err != nil {
		s.T.Fatal(err)
	}
}

// The size of a request is that of the whole message, what an RDMA transport carried
// beside it included (RFC 8881 §18.36.3, ca_maxrequestsize).
func TestRequestSizeCountsWhatTravelsBeside(t *testing.T) {
	c := &rpc.Call{}
	c.MessageLen = 200
	c.Placed = []rpc.Placed{{Position: 100, Length: 4096}, {Position: 160, Length: 3}}
	if n := requestSize(c); n != 200+4096+3 {
		t.Errorf("the request has %d bytes", n)
	}
}

// A repetition is the same caller's: of RPCSEC_GSS that is the principal, whatever number
// it has by now, and of AUTH_SYS the number (RFC 8881 §2.10.6.1.3.1).
func TestRepetitionsAreTheSameCallers(t *testing.T) {
	of := func(c rpc.Cred) uint64 {
		call := &rpc.Call{}
		call.Cred = c
		return digestOf(&nfs4.Compound{Call: call, Args: xdr.NewDecoder([]byte("operations")), Count: 2})
	}
	gss := func(principal string, uid uint32) rpc.Cred {
		return rpc.Cred{Flavor: rpc.AuthGSS, Principal: principal, UID: uid, GID: uid}
	}
	sys := func(uid, gid uint32) rpc.Cred { return rpc.Cred{Flavor: rpc.AuthSys, UID: uid, GID: gid} }
	for _, c := range []struct {
		name string
		a, b rpc.Cred
		same bool
	}{
		{"one principal", gss("alice@R", 7), gss("alice@R", 7), true},
		{"one principal, whose number was asked for anew", gss("alice@R", 7), gss("alice@R", 8), true},
		{"two principals", gss("alice@R", 7), gss("bob@R", 7), false},
		{"one user", sys(7, 8), sys(7, 8), true},
		{"two users", sys(7, 8), sys(9, 8), false},
		{"two groups", sys(7, 8), sys(7, 9), false},
		{"two flavors", sys(7, 7), gss("", 7), false},
	} {
		if same := of(c.a) == of(c.b); same != c.same {
			t.Errorf("%s: the same request: %v, want %v", c.name, same, c.same)
		}
	}
}

// The sessions of one address together keep no more replies than they leave room for those
// of others, and their requests go on.
func TestRepliesOfOneAddressLeaveAsMuchToOthers(t *testing.T) {
	st, m := site(t, Config{CacheMemory: 1 << 20}, state.Config{})
	ops := []nfs4test.Op{rootOp}
	for range 100 {
		ops = append(ops, op(wire.OpGetFH))
	}
	top := int64(0)
	for i := range 8 {
		p := st.Peer(1)
		args := createArgs(newClient(p, fmt.Sprint("client ", i), 1), 1)
		args.ForeChanAttrs.Maxrequests = 256
		s := sessionOf(p, args)
		for slot := range s.fore.Maxrequests {
			if r := s.with(s.sequenceOp(slot), ops...); r.Status != wire.NFS4OK {
				t.Fatalf("session %d, slot %d: %v", i, slot, r.Status)
			}
			top = max(top, m.cache.others.Load())
		}
	}
	if most := m.cache.half/2 + maxCached; top > most || top < most/2 {
		t.Errorf("replies took %d bytes, want up to %d of %d", top, most, m.cache.half)
	}
}
