package nfs41

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
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
