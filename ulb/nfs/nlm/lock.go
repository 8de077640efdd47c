package nlm

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// test is TEST (RFC 1813 §6.2).
func (r *request) test(args *wire.TestArgs4) (wire.Stat4, error) {
	if s, err := r.beginOnWorker(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	if s, err := r.mayLock(args.Exclusive); s != wire.Granted || err != nil {
		return s, err
	}
	m := r.program.state
	d, s := m.HostTest(r.host(), r.owner(), r.ref(nil).Key, r.lock.Offset, r.length(), args.Exclusive, r.claimer, &r.later)
	switch s {
	case state.AfterDisk:
		return wire.Failed, errLater
	case state.LockConflict:
		r.holder = holder(m, d)
	}
	return verdict(s), nil
}

// holder describes a lock that is in the way. The holder has a process number and an opaque name only if it is an
// owner of a host.
func holder(m *state.Manager, d *state.Denied) wire.Holder4 {
	h := wire.Holder4{Exclusive: d.Write, Offset: d.Offset, Length: d.Length}
	if h.Length == vfs.ToEnd {
		h.Length = 0
	}
	if c := m.Client(d.ClientID); c != nil && c.Kind == state.Host && len(d.Owner) >= 4 {
		h.SVID = int32(binary.BigEndian.Uint32([]byte(d.Owner)))
		h.OH = wire.Object(d.Owner[4:])
	}
	return h
}

// lockFile is LOCK (RFC 1813 §6.2), and NM_LOCK, which promises that its host needs no monitoring: a record
// of it does no harm.
func (r *request) lockFile(args *wire.LockArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	if s, err := r.mayLock(args.Exclusive); s != wire.Granted || err != nil {
		return s, err
	}
	m := r.program.state
	if !args.Reclaim && !m.GoesOn(state.KindLock, 0) {
		r.putOff(rpc.WaitGrace)
		return wire.DeniedGracePeriod, nil
	}
	host, s := r.introduce(args.State)
	if s != state.Granted {
		return verdict(s), nil
	}
	what := r.what(host)
	a := state.LockArgs{
		Host: host, OwnerName: what.Owner, Ref: what.Ref, Offset: what.Offset, Length: what.Length,
		Write: args.Exclusive, Claimed: args.Reclaim, Claimer: r.claimer, Try: r.op.Try, Later: &r.later, Wait: args.Block && !args.Reclaim,
		Held: func(state.Before) { r.program.granter.settle(&what) },
	}
	if a.Wait {
		a.Tag = r.awaited(host, args.Exclusive)
	}
	d, s := m.HostLock(&a)
	switch {
	case s == state.AfterDisk:
		return wire.Failed, errLater
	case s == state.WouldWait:
		return wire.Failed, vfs.ErrWouldBlock
	case s == state.LockConflict && a.Wait:
		if d.ClientID == 0 {
			r.program.granter.retry(a.Tag.(*awaited))
		}
		return wire.Blocked, nil
	}
	return verdict(s), nil
}

// unlock is UNLOCK (RFC 1813 §6.2). It ends what the owner holds of the range, and its waiting there: a client that
// gives up may not know whether it has the lock. The caller needs no rights to the
// file, which may have been taken from it meanwhile.
func (r *request) unlock(args *wire.UnlockArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	host := r.host()
	if host == nil {
		return wire.Granted, nil
	}
	what := r.what(host)
	v := r.program.state.HostUnlock(&what, func() { r.program.granter.settle(&what) })
	if v == state.WouldWait {
		return wire.Failed, vfs.ErrWouldBlock
	}
	return verdict(v), nil
}

// cancel is CANCEL (RFC 1813 §6.2). If the lock has just been granted, and the host has not said that it knows, CANCEL
// takes it back.
func (r *request) cancel(args *wire.CancelArgs4) (wire.Stat4, error) {
	if s, err := r.beginOnWorker(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	host := r.host()
	if host == nil {
		return wire.Denied, nil
	}
	p, what := r.program, r.what(host)
	// The lock may be taken between the first two looks.
	if p.cancelled(&what, args.Exclusive) || p.state.HostCancel(&what, args.Exclusive) || p.cancelled(&what, args.Exclusive) {
		return wire.Granted, nil
	}
	return wire.Denied, nil
}
