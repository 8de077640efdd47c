package nfs40_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// records is a state.Records that outlives a server.
type records struct {
	mu     sync.Mutex
	starts uint32
	known  map[string]state.Record
}

func (r *records) Begin() (uint32, []state.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	var all []state.Record
	for _, k := range r.known {
		all = append(all, k)
	}
	return r.starts, all, nil
}

func (r *records) Put(more []state.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range more {
		r.known[k.Owner] = k
	}
	return nil
}

func (r *records) Remove(gone []state.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range gone {
		delete(r.known, k.Owner)
	}
	return nil
}

func (r *records) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// A house is a server that the test can restart. fs and records outlive the server.
type house struct {
	fs      vfs.FileSystem
	records *records
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{memfs.New(memfs.Options{RootMode: 0o777}), &records{known: map[string]state.Record{}}}
	populate(t, h.fs)
	return h
}

// start starts the server, or restarts it.
func (h *house) start(t testing.TB) *peer {
	t.Helper()
	s := nfs4test.New(t, nfs4test.Config{FS: h.fs, State: state.Config{Records: h.records}, Minors: func(m *state.Manager) [3]nfs4.Minor {
		return [3]nfs4.Minor{nfs40.New(nfs40.Config{State: m})}
	}})
	return &peer{s.Peer(0)}
}

func (o *owner) reclaim(access, deny uint32) op {
	return o.claim(wire.OpenClaim4{Claim: wire.ClaimPrevious}, access, deny, wire.Openflag4{})
}

// reclaim returns the first LOCK of a lock-owner, which reclaims a lock.
func (l *locker) reclaim(o *owner, open wire.StateID4, offset, length uint64) op {
	lock := l.first(o, open, wire.WriteLt, offset, length)
	lock.Args.(*wire.Lock4Args).Reclaim = true
	return lock
}

// The server records a client before the client gets its first open.
func TestFirstOpenIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		c := h.start(t).client(t, "client")
		if n := h.records.count(); n != 0 {
			t.Errorf("%d records of who holds nothing", n)
		}
		c.owner("o").opens(t, "file", readMode, denyNone)
		if n := h.records.count(); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		old := h.start(t).client(t, "client")
		o, l := old.owner("o"), old.locker("l")
		id := o.opens(t, "file", bothMode, denyWrite)
		lock := stateID(t, old.run(t, ok, join(at("file"), l.first(o, id, wire.WriteLt, 0, 10))...))
		file := old.handle(t, "file")

		p := h.start(t)
		// All client IDs and stateids are from the earlier run of the server.
		p.run(t, wire.NFS4ErrStaleClientID, renew(old.id))
		p.run(t, wire.NFS4ErrStaleStateID, putFH(file), read(id, 0, 1))
		p.run(t, wire.NFS4ErrStaleStateID, putFH(file), write(lock, 0, "x"))
		p.run(t, wire.NFS4ErrStaleClientID, putFH(file), l.test(wire.ReadLt, 0, 1))
		p.run(t, wire.NFS4ErrStaleClientID, putRootFH, o.open("file", readMode, denyNone))
		c := p.client(t, "client")
		if c.id == old.id {
			t.Fatal("a client ID came again")
		}
		// The server grants no new state until the grace period has ended.
		n := c.owner("new")
		for _, ops := range [][]op{
			{putRootFH, n.open("file", readMode, denyNone)},
			{putRootFH, n.openHow("new", bothMode, denyNone, creating(wire.Guarded4, mode(0o600)))},
			{putFH(file), read(anonymous, 0, 1)}, {putFH(file), write(anonymous, 0, "x")}, {putFH(file), write(bypass, 0, "x")}, {putFH(file), setattr(anonymous, size(0))},
			{putRootFH, remove("file")}, {putRootFH, saveFH, rename("file", "other")}, {putFH(file), c.locker("x").test(wire.ReadLt, 0, 1)},
		} {
			p.run(t, wire.NFS4ErrGrace, ops...)
		}
		p.run(t, ok, putFH(file), getattr(wire.Fattr4Size), read(bypass, 0, 1))
		// The client reclaims its earlier state, which needs no confirmation (RFC 7530 §9.1.11).
		o, l = c.owner("o"), c.locker("l")
		res := opened(t, p.run(t, ok, putFH(file), o.reclaim(bothMode, denyWrite)), 1)
		if res.Rflags&wire.Open4ResultConfirm != 0 {
			t.Error("a claim is to be confirmed")
		}
		p.run(t, ok, putFH(file), read(res.Stateid, 0, 1), write(res.Stateid, 0, "x"))
		p.run(t, wire.NFS4ErrGrace, putFH(file), l.first(o, res.Stateid, wire.WriteLt, 0, 10))
		l.seqid--
		p.run(t, ok, putFH(file), l.reclaim(o, res.Stateid, 0, 10))
		// A client that held nothing can reclaim nothing.
		other := c.other(t, "other")
		p.oneOf(t, []status{wire.NFS4ErrNoGrace, wire.NFS4ErrReclaimBad}, putFH(file), other.owner("o").reclaim(readMode, denyNone))

		time.Sleep(lease + lease/4)
		synctest.Wait()
		p.run(t, wire.NFS4ErrNoGrace, putRootFH, lookup("dir"), lookup("inner"), o.reclaim(readMode, denyNone))
		p.run(t, ok, putRootFH, n.open("file", readMode, denyNone))
		p.run(t, ok, renew(c.id))
		if got := h.records.count(); got != 1 {
			t.Errorf("%d records", got)
		}
	})
}

// If a client did not reclaim its state in the grace period, the state is lost. It cannot reclaim
// the state after another restart either (RFC 7530 §9.6.3.4.2).
func TestSecondRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		c := h.start(t).client(t, "client")
		c.owner("o").opens(t, "file", bothMode, denyNone)
		file := c.handle(t, "file")

		p := h.start(t)
		time.Sleep(2 * lease)
		synctest.Wait()
		d := p.client(t, "another")
		d.owner("o").opens(t, "file", bothMode, denyNone)

		p = h.start(t)
		c = p.client(t, "client")
		p.oneOf(t, []status{wire.NFS4ErrNoGrace, wire.NFS4ErrReclaimBad}, putFH(file), c.owner("o").reclaim(bothMode, denyNone))
		d = p.client(t, "another")
		p.run(t, ok, putFH(file), d.owner("o").reclaim(bothMode, denyNone))
	})
}

// If the lease of a client ran out and another client got its lock, the client cannot reclaim the
// lock after a restart (RFC 7530 §9.6.3.4.1).
func TestExpiredClientDoesNotClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		p := h.start(t)
		c, d := p.client(t, "client"), p.client(t, "another")
		c.owner("o").opens(t, "file", bothMode, denyBoth)
		file := c.handle(t, "file")
		time.Sleep(lease * 2 / 3)
		p.run(t, ok, renew(d.id))
		time.Sleep(lease * 2 / 3)
		d.owner("o").opens(t, "file", bothMode, denyBoth)

		p = h.start(t)
		c, d = p.client(t, "client"), p.client(t, "another")
		p.oneOf(t, []status{wire.NFS4ErrNoGrace, wire.NFS4ErrReclaimBad}, putFH(file), c.owner("o").reclaim(bothMode, denyBoth))
		p.run(t, ok, putFH(file), d.owner("o").reclaim(bothMode, denyBoth))
	})
}

// If no client can reclaim state, there is no grace period.
func TestRestartWithoutClientsHasNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.start(t).client(t, "client")
		c := h.start(t).client(t, "client")
		c.owner("o").opens(t, "file", bothMode, denyNone)
	})
}
