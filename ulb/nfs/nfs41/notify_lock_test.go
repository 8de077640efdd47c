package nfs41

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// create4 returns an OPEN that creates the file in the current directory if it does not exist.
func create4(owner, name string) nfs4test.Op {
	args := &wire.Open4Args{ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Owner: []byte(owner)}}
	args.Openhow.Opentype = wire.Open4Create
	args.Openhow.How.Mode = wire.Unchecked4
	args.Claim.Claim = wire.ClaimNull
	args.Claim.File = []byte(name)
	return op(wire.OpOpen, args)
}

// lock4 returns a LOCK of the whole file, by a new lock-owner that waits for the lock.
func lock4(open wire.StateID4, owner string) nfs4test.Op {
	args := &wire.Lock4Args{Locktype: wire.WritewLt, Length: 1<<64 - 1}
	args.Locker.NewLockOwner = true
	args.Locker.OpenOwner = wire.OpenToLockOwner4{OpenStateid: open, LockOwner: wire.StateOwner4{Owner: []byte(owner)}}
	return op(wire.OpLock, args)
}

// A Minor with exports has the Manager tell it of locks that become free. Without exports it could not name
// the file.
func TestMinorIsToldOfLocks(t *testing.T) {
	for _, exports := range []*export.Table{nil, export.NewTable([export.KeySize]byte{1})} {
		m, err := state.New(state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		New(Config{State: m, Exports: exports})
		if got, want := m.NotifiesLocks(), exports != nil; got != want {
			t.Errorf("with exports %v: told %v", want, got)
		}
	}
}

// When a lock becomes free, the server sends CB_NOTIFY_LOCK to a client that waits for it.
func TestNotifyLock(t *testing.T) { inEachMinor(t, notifyLock) }

func notifyLock(t *testing.T, minor uint32) {
	k := &client41{minor: minor}
	got := make(chan *calledBack, 1)
	k.answer = func(c *calledBack, w *xdr.Writer) error {
		got <- c
		return c.fine(w)
	}
	sess, waiter := backSession(t, k, nil)
	m := sess.minor
	m.cfg.Exports = waiter.Exports
	m.state.NotifyLocks(m.notifyLock)
	holder := newClientSession(waiter.Site.Peer(minor), "holder")
	root := putExport(waiter)
	complete := op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})
	var opened [2]wire.StateID4
	var fh wire.GetFH4Res
	var locked wire.Lock4Res
	for i, s := range []*session{holder, waiter} {
		r := s.run(complete, root, create4("owner", "file"), op(wire.OpGetFH))
		want(t, "OPEN", r, wire.NFS4OK, 5)
		var res wire.Open4Res
		r.Ops[3].Into(t, &res)
		if res.ResOK.Rflags&wire.Open4ResultMayNotifyLock == 0 {
			t.Error("the client is not told that it will be called")
		}
		opened[i] = res.ResOK.Stateid
		r.Ops[4].Into(t, &fh)
	}
	put := op(wire.OpPutFH, &wire.PutFH4Args{Object: fh.ResOK.Object})
	r := holder.run(put, lock4(opened[0], "locker"))
	want(t, "LOCK", r, wire.NFS4OK, 3)
	r.Ops[2].Into(t, &locked)
	want(t, "LOCK of the other", waiter.run(put, lock4(opened[1], "waiting")), wire.NFS4ErrDenied, 3)
	want(t, "LOCKU", holder.run(put, op(wire.OpLocku, &wire.Locku4Args{
		Locktype: wire.WriteLt, LockStateid: locked.ResOK.LockStateid, Length: 1<<64 - 1,
	})), wire.NFS4OK, 3)
	c := await.Receive(t, "the client is called", got)
	if c.op != wire.OpCBNotifyLock || !bytes.Equal(c.notice.FH, fh.ResOK.Object) ||
		c.notice.LockOwner.Clientid != waiter.client || string(c.notice.LockOwner.Owner) != "waiting" {
		t.Errorf("%+v", c)
	}
	want(t, "LOCK again", waiter.run(put, lock4(opened[1], "waiting")), wire.NFS4OK, 3)
}
