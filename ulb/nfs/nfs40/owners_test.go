package nfs40_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Access and deny modes.
const (
	readMode  = wire.Open4ShareAccessRead
	writeMode = wire.Open4ShareAccessWrite
	bothMode  = wire.Open4ShareAccessBoth
	denyNone  = wire.Open4ShareDenyNone
	denyRead  = wire.Open4ShareDenyRead
	denyWrite = wire.Open4ShareDenyWrite
	denyBoth  = wire.Open4ShareDenyBoth
)

// A client is a confirmed client.
type client struct {
	*peer
	id uint64
}

func setClientID(name string, verifier byte) op {
	return setCallback(name, verifier, wire.CBClient4{}, 0)
}

func setCallback(name string, verifier byte, cb wire.CBClient4, ident uint32) op {
	return op{Number: wire.OpSetClientID, Args: &wire.SetClientID4Args{
		Client: wire.NFSClientID4{Verifier: wire.Verifier4{verifier}, ID: []byte(name)}, Callback: cb, CallbackIdent: ident,
	}}
}

func confirmClientID(id uint64, confirm wire.Verifier4) op {
	return op{Number: wire.OpSetClientIDConfirm, Args: &wire.SetClientIDConfirm4Args{Clientid: id, SetclientidConfirm: confirm}}
}

func renew(id uint64) op { return op{Number: wire.OpRenew, Args: &wire.Renew4Args{Clientid: id}} }

// set sends SETCLIENTID for a client. It does not confirm the client.
func (p *peer) set(t testing.TB, name string, verifier byte) (id uint64, confirm wire.Verifier4) {
	t.Helper()
	var res wire.SetClientID4Res
	last(t, p.run(t, ok, setClientID(name, verifier)), &res)
	return res.ResOK.Clientid, res.ResOK.SetclientidConfirm
}

// client registers and confirms a client.
func (p *peer) client(t testing.TB, name string) *client {
	t.Helper()
	id, confirm := p.set(t, name, 1)
	p.run(t, ok, confirmClientID(id, confirm))
	return &client{peer: p, id: id}
}

// newClient makes a test server and a client of it.
func newClient(t testing.TB) *client { return newPeer(t).client(t, "client") }

// other makes another client of the same server.
func (c *client) other(t testing.TB, name string) *client {
	t.Helper()
	return (&peer{c.Site.Peer(0)}).client(t, name)
}

// An owner is an open-owner or a lock-owner. It numbers its requests.
type owner struct {
	*client
	name string
	// seqid is the number of the next request.
	seqid uint32
}

func (c *client) owner(name string) *owner { return &owner{c, name, 1} }

func (o *owner) wire() wire.StateOwner4 {
	return wire.StateOwner4{Clientid: o.id, Owner: []byte(o.name)}
}

// next returns the number of the next request, and increments seqid.
func (o *owner) next() uint32 {
	o.seqid++
	return o.seqid - 1
}

// open returns an OPEN of a name with the next number.
func (o *owner) open(name string, access, deny uint32) op {
	return o.openHow(name, access, deny, wire.Openflag4{})
}

func (o *owner) openHow(name string, access, deny uint32, how wire.Openflag4) op {
	return o.claim(wire.OpenClaim4{File: wire.UTF8String(name)}, access, deny, how)
}

func (o *owner) claim(claim wire.OpenClaim4, access, deny uint32, how wire.Openflag4) op {
	return op{Number: wire.OpOpen, Args: &wire.Open4Args{
		Seqid: o.next(), ShareAccess: access, ShareDeny: deny, Owner: o.wire(), Openhow: how, Claim: claim,
	}}
}

func creating(m wire.Createmode4, a wire.FAttr4) wire.Openflag4 {
	return wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: m, Createattrs: a}}
}

func exclusive(verifier byte) wire.Openflag4 {
	return wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: wire.Exclusive4, Createverf: wire.Verifier4{verifier}}}
}

func (o *owner) confirm(id wire.StateID4) op {
	return op{Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: id, Seqid: o.next()}}
}

func (o *owner) close(id wire.StateID4) op {
	return op{Number: wire.OpClose, Args: &wire.Close4Args{Seqid: o.next(), OpenStateid: id}}
}

func (o *owner) downgrade(id wire.StateID4, access, deny uint32) op {
	return op{Number: wire.OpOpenDowngrade, Args: &wire.OpenDowngrade4Args{
		OpenStateid: id, Seqid: o.next(), ShareAccess: access, ShareDeny: deny,
	}}
}

// opened decodes the result of the OPEN at index i.
func opened(t testing.TB, r *nfs4test.Result, i int) wire.Open4ResOK {
	t.Helper()
	var res wire.Open4Res
	r.Ops[i].Into(t, &res)
	return res.ResOK
}

// stateID returns the stateid from the last operation: a CLOSE, OPEN_CONFIRM,
// OPEN_DOWNGRADE, LOCK or LOCKU.
func stateID(t testing.TB, r *nfs4test.Result) (id wire.StateID4) {
	t.Helper()
	var res wire.OpenConfirm4Res // the results of all of them have this form
	last(t, r, &res)
	return res.ResOK.Stateid
}

// opens opens a file below the root, and confirms the owner if the server requests that.
func (o *owner) opens(t testing.TB, name string, access, deny uint32) wire.StateID4 {
	t.Helper()
	return o.opensHow(t, name, access, deny, wire.Openflag4{})
}

func (o *owner) opensHow(t testing.TB, name string, access, deny uint32, how wire.Openflag4) wire.StateID4 {
	t.Helper()
	res := opened(t, o.run(t, ok, putRootFH, o.openHow(name, access, deny, how)), 1)
	if res.Rflags&wire.Open4ResultConfirm == 0 {
		return res.Stateid
	}
	return stateID(t, o.run(t, ok, join(at(name), o.confirm(res.Stateid))...))
}

// A locker is a lock-owner.
type locker struct{ *owner }

func (c *client) locker(name string) *locker { return &locker{c.owner(name)} }

// first returns the first LOCK of the lock-owner l, through an open of o.
func (l *locker) first(o *owner, open wire.StateID4, kind wire.NFSLockType4, offset, length uint64) op {
	return op{Number: wire.OpLock, Args: &wire.Lock4Args{
		Locktype: kind, Offset: offset, Length: length, Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
			OpenSeqid: o.next(), OpenStateid: open, LockSeqid: l.next(), LockOwner: l.wire(),
		}},
	}}
}

func (l *locker) lock(id wire.StateID4, kind wire.NFSLockType4, offset, length uint64) op {
	return op{Number: wire.OpLock, Args: &wire.Lock4Args{
		Locktype: kind, Offset: offset, Length: length,
		Locker: wire.Locker4{LockOwner: wire.ExistLockOwner4{Stateid: id, Seqid: l.next()}},
	}}
}

func (l *locker) unlock(id wire.StateID4, offset, length uint64) op {
	return op{Number: wire.OpLocku, Args: &wire.Locku4Args{
		Locktype: wire.WriteLt, Seqid: l.next(), LockStateid: id, Offset: offset, Length: length,
	}}
}

// test returns a LOCKT, which is not numbered.
func (l *locker) test(kind wire.NFSLockType4, offset, length uint64) op {
	return op{Number: wire.OpLockt, Args: &wire.Lockt4Args{Locktype: kind, Offset: offset, Length: length, Owner: l.wire()}}
}

func (l *locker) release() op {
	return op{Number: wire.OpReleaseLockOwner, Args: &wire.ReleaseLockOwner4Args{LockOwner: l.wire()}}
}
