package nlm

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// share is SHARE (RFC 1813 §6.2): an open with deny bits, as Windows has it.
func (r *request) share(args *wire.ShareArgs4) (wire.Stat4, error) {
	a := &args.Share
	if s, err := r.begin(args.Cookie, fileOf(a)); s != wire.Granted || err != nil {
		return s, err
	}
	if a.Access&^wire.AccessBoth != 0 || a.Mode&^wire.DenyBoth != 0 {
		return wire.Failed, nil
	}
	if s, err := r.mayLock(a.Access&wire.AccessWrite != 0); s != wire.Granted || err != nil {
		return s, err
	}
	m := r.program.state
	if !args.Reclaim && !m.GoesOn(state.KindOpen, state.Access(a.Mode)) {
		r.putOff(rpc.WaitGrace)
		return wire.DeniedGracePeriod, nil
	}
	host, s := r.introduce(0)
	if s != state.Granted {
		return verdict(s), nil
	}
	ref := r.ref(host)
	s = m.HostShare(&state.OpenArgs{
		Client: host, OwnerName: a.OH, Key: ref.Key, Export: ref.Export,
		Access: state.Access(a.Access), Deny: state.Access(a.Mode), Claimed: args.Reclaim, Later: &r.later, Try: r.op.Try,
	})
	switch s {
	case state.AfterDisk:
		return wire.Failed, errLater
	case state.WouldWait:
		return wire.Failed, vfs.ErrWouldBlock
	case state.OpenConflict:
		r.putOff(rpc.WaitShare)
	}
	return verdict(s), nil
}

// unshare is UNSHARE (RFC 1813 §6.2).
func (r *request) unshare(args *wire.ShareArgs4) (wire.Stat4, error) {
	if s, err := r.begin(args.Cookie, fileOf(&args.Share)); s != wire.Granted || err != nil {
		return s, err
	}
	if host := r.host(); host != nil {
		ref := r.ref(host)
		r.program.state.HostUnshare(host, args.Share.OH, &ref)
	}
	return wire.Granted, nil
}

// decodeShare decodes the arguments of SHARE and UNSHARE, which are the same in all versions that have them.
func decodeShare(d *xdr.Decoder, a *wire.ShareArgs4) { a.Decode(d) }

// fileOf returns a lock of the file and the caller of a share.
func fileOf(a *wire.Share4) *wire.Lock4 {
	return &wire.Lock4{CallerName: a.CallerName, FileHandle: a.FileHandle, OH: a.OH}
}

func shareRes(r *request, w *xdr.Writer, stat wire.Stat4) {
	(&wire.ShareRes4{Cookie: r.cookie, Stat: r.told(stat)}).Encode(w)
}
