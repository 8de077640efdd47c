package nfs41

import (
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
)

// life runs f with a server whose records are in the file at path. Then it ends the server.
func life(t *testing.T, path string, f func(p *nfs4test.Peer)) {
	t.Run("life", func(t *testing.T) {
		store, err := records.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() }) // runs after the end of the server
		f(nfs4test.New(t, nfs4test.Config{State: state.Config{Records: store}, Minors: func(sm *state.Manager) [3]nfs4.Minor {
			m := New(Config{State: sm})
			return [3]nfs4.Minor{nil, m, m}
		}}).Peer(1))
	})
}

// After a restart the server knows no earlier state. SEQUENCE tells a client that held state to
// reclaim it.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	complete := op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})
	reclaim := func(name string) nfs4test.Op {
		o := create4("owner", name)
		args := o.Args.(*wire.Open4Args)
		args.Openhow = wire.Openflag4{}
		args.Claim = wire.OpenClaim4{Claim: wire.ClaimPrevious}
		return o
	}
	var old *session
	life(t, path, func(p *nfs4test.Peer) {
		old = newClientSession(p, "client")
		want(t, "OPEN before RECLAIM_COMPLETE", old.run(putExport(old), create4("owner", "file")), wire.NFS4ErrGrace, 3)
		want(t, "RECLAIM_COMPLETE", old.run(complete), wire.NFS4OK, 2)
		want(t, "OPEN", old.run(putExport(old), create4("owner", "file")), wire.NFS4OK, 3)
	})
	life(t, path, func(p *nfs4test.Peer) {
		old.Peer = p
		want(t, "a session of before", old.run(), wire.NFS4ErrBadSession, 1)
		is(t, "a client of before", create(p, createArgs(old.client, 2)).Status, wire.NFS4ErrStaleClientID)
		id := newClient(p, "client", 1)
		if id == old.client {
			t.Error("an identity was used twice")
		}
		s := newSession(p, id, 1)
		if s.id == old.id {
			t.Error("a session's identity was used twice")
		}
		if got := flagsOf(t, s.run()); got != wire.Seq4StatusRestartReclaimNeeded {
			t.Errorf("flags %#x", got)
		}
		stranger := newClientSession(p, "stranger")
		if got := flagsOf(t, stranger.run()); got != 0 {
			t.Errorf("a stranger's flags %#x", got)
		}
		want(t, "a stranger's RECLAIM_COMPLETE", stranger.run(complete), wire.NFS4OK, 2)
		deny := create4("owner", "other")
		deny.Args.(*wire.Open4Args).ShareDeny = wire.Open4ShareDenyBoth
		want(t, "a stranger's OPEN with a deny mode", stranger.run(putExport(s), deny), wire.NFS4ErrGrace, 3)
		want(t, "a stranger's OPEN, which conflicts with no claim", stranger.run(putExport(s), create4("owner", "other")), wire.NFS4OK, 3)
		r := s.run(putExport(s), reclaim(""))
		if got := r.Status; got == wire.NFS4ErrGrace || got == wire.NFS4ErrNoGrace {
			t.Errorf("a claim: %v", got)
		}
		want(t, "a stranger's claim", stranger.run(putExport(s), reclaim("")), wire.NFS4ErrNoGrace, 3)
		want(t, "RECLAIM_COMPLETE", s.run(complete), wire.NFS4OK, 2)
		if got := flagsOf(t, s.run()); got != 0 {
			t.Errorf("flags %#x", got)
		}
		want(t, "a claim after it", s.run(putExport(s), reclaim("")), wire.NFS4ErrNoGrace, 3)
	})
}

// The confirmation of a new incarnation closes the files of the earlier one.
func TestConfirmationClosesFiles(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	old := newClientSession(p, "client")
	deny := create4("owner", "file")
	deny.Args.(*wire.Open4Args).ShareDeny = wire.Open4ShareDenyBoth
	complete := op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})
	want(t, "OPEN", old.run(complete, putExport(old), deny), wire.NFS4OK, 4)
	other := newClientSession(site.Peer(1), "other")
	want(t, "OPEN of another", other.run(complete, putExport(other), create4("owner", "file")), wire.NFS4ErrShareDenied, 4)
	next := newClient(p, "client", 2)
	newSession(p, next, 1)
	want(t, "OPEN of another", other.run(putExport(other), create4("owner", "file")), wire.NFS4OK, 3)
}
