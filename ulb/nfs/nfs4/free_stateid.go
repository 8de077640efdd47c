package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// freeStateID is FREE_STATEID (RFC 8881 §18.38).
func freeStateID(k *Compound) Status {
	var args wire.FreeStateID4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	r, s := k.ref(&args.Stateid)
	if s != wire.NFS4OK {
		return s
	}
	return k.Program.state.FreeStateID(&r.ID, k.Client)
}

// testStateID is TEST_STATEID (RFC 8881 §18.48). The status of a special stateid is
// NFS4ERR_BAD_STATEID. The status is never NFS4ERR_STALE_STATEID, because a client would repeat the
// test for ever.
func testStateID(k *Compound) Status {
	var args wire.TestStateID4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	ids := args.Stateids
	if 4+4*ids.Len() > k.Room() {
		return k.tooBig()
	}
	k.W.Uint32(uint32(ids.Len()))
	var id wire.StateID4
	for ids.Next(&id) {
		_, s := k.Program.state.Find(&id, k.Client)
		s.Encode(k.W)
	}
	return wire.NFS4OK
}

// delegReturn is DELEGRETURN (RFC 8881 §18.6). The server grants no delegations, so no
// stateid belongs to one.
func delegReturn(k *Compound) Status {
	var args wire.DelegReturn4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	r, s := k.ref(&args.Stateid)
	if s != wire.NFS4OK {
		return s
	}
	_, s = k.Program.state.Find(&r.ID, k.Client)
	if s == wire.NFS4OK || s == wire.NFS4ErrOldStateID {
		s = wire.NFS4ErrBadStateID // the stateid belongs to an open or a lock
	}
	return s
}

// delegPurge is DELEGPURGE (RFC 8881 §18.5). It is not supported, because the server keeps no
// delegations for a client that restarts.
func delegPurge(k *Compound) Status {
	var args wire.DelegPurge4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if _, s := k.ClientOf(args.Clientid); s != wire.NFS4OK && k.Minor == 0 {
		return s
	}
	return wire.NFS4ErrNotSupp
}
