package nfs40_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// fullDisk is a state.Records to which no record can be added.
type fullDisk struct{ records }

func (*fullDisk) Put([]state.Record) error { return errors.New("no space left on device") }

// A client that cannot be recorded gets no state. After a restart it could not reclaim the state,
// and another client could get conflicting state (RFC 8881 §8.4.3).
func TestNothingIsOpenedWithoutARecord(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	populate(t, fs)
	s := nfs4test.New(t, nfs4test.Config{FS: fs, State: state.Config{Records: &fullDisk{}}, Minors: func(m *state.Manager) [3]nfs4.Minor {
		return [3]nfs4.Minor{nfs40.New(nfs40.Config{State: m})}
	}})
	c := (&peer{s.Peer(0)}).client(t, "client")
	c.run(t, wire.NFS4ErrDelay, putRootFH, c.owner("o").open("file", readMode, denyNone))
	if u := s.State.Usage(); u.Opens != 0 {
		t.Errorf("%d files are open", u.Opens)
	}
}

// A client ID of a later minor version is invalid in minor version 0 (RFC 8881 §2.4): no operation
// renews a lease or opens a file by it.
func TestClientIDsOfLaterVersionsAreStale(t *testing.T) {
	p := newPeer(t)
	m := p.Site.State
	x := m.ExchangeID(&state.Identity{Owner: []byte("client")}, false)
	if x.Verdict != state.Granted || m.Confirm(x.Client) != state.Granted {
		t.Fatalf("%v", x.Verdict)
	}
	p.run(t, wire.NFS4ErrStaleClientID, renew(x.Client.ID))
	c := &client{peer: p, id: x.Client.ID}
	p.run(t, wire.NFS4ErrStaleClientID, putRootFH, c.owner("o").open("file", readMode, denyNone))
}
