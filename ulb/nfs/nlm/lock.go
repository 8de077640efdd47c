package nlm

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// test is TEST (RFC 1813 §6.2).
func (r *request) test(args *wire.TestArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
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
	case nfs4wire.NFS4ErrDenied:
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
	if c := m.Client(d.ClientID); c != nil && c.Minor == state.Host && len(d.Owner) >= 4 {
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
	if m.InGrace() && !args.Reclaim {
		return wire.DeniedGracePeriod, nil
	}
	host, s := m.HostOf(r.lock.CallerName, r.call.Conn.Peer.Addr(), nil)
	if s != nfs4wire.NFS4OK {
		return verdict(s), nil
	}
	a := state.LockArgs{
		Host: host, OwnerName: r.owner(), Ref: r.ref(host), Offset: r.lock.Offset, Length: r.length(),
		Write: args.Exclusive, Claimed: args.Reclaim, Claimer: r.claimer, Later: &r.later,
	}
	if _, s = m.HostLock(&a); s == state.AfterDisk {
		return wire.Failed, errLater
	}
	return verdict(s), nil
}

// unlock is UNLOCK (RFC 1813 §6.2). It ends what the owner holds of the range. The caller needs no rights to the
// file, which may have been taken from it meanwhile.
func (r *request) unlock(args *wire.UnlockArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	host := r.host()
	if host == nil {
		return wire.Granted, nil
	}
	ref := r.ref(host)
	return verdict(r.program.state.HostUnlock(host, r.owner(), &ref, r.lock.Offset, r.length(), r.claimer)), nil
}

// cancel is CANCEL (RFC 1813 §6.2).
func (r *request) cancel(args *wire.CancelArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, &args.Lock); s != wire.Granted || err != nil {
		return s, err
	}
	host := r.host()
	if host == nil {
		return wire.Denied, nil
	}
	ref := r.ref(host)
	if !r.program.state.HostCancel(host, r.owner(), &ref, r.lock.Offset, r.length(), args.Exclusive) {
		return wire.Denied, nil
	}
	return wire.Granted, nil
}
