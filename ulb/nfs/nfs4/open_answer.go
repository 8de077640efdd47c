package nfs4

import wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// answer writes the result and makes the file and its stateid current.
func (o *opening) answer() {
	k := o.k
	res := wire.Open4ResOK{
		Stateid: o.state.ID, Cinfo: o.change, Rflags: wire.Open4ResultLocktypePosix, Attrset: o.set,
		Delegation: o.delegation(),
	}
	if o.state.Confirm {
		res.Rflags |= wire.Open4ResultConfirm
	}
	if k.Minor > 0 && k.Program.state.NotifiesLocks() {
		res.Rflags |= wire.Open4ResultMayNotifyLock
	}
	res.Encode(k.W)
	k.SetCurrent(o.object)
	k.SetStateID(o.state.ID)
}

// delegation returns the part of the result that grants no delegation. If the client asked
// for a delegation, this part contains the reason (RFC 8881 §18.16.3).
func (o *opening) delegation() (d wire.OpenDelegation4) {
	want := o.args.ShareAccess & wire.Open4ShareAccessWantDelegMask
	if o.k.Minor == 0 || want == wire.Open4ShareAccessWantNoPreference {
		return d
	}
	d.DelegationType = wire.OpenDelegateNoneExt
	switch want {
	case wire.Open4ShareAccessWantNoDeleg:
		d.Whynone.Why = wire.Wnd4NotWanted
	case wire.Open4ShareAccessWantCancel:
		d.Whynone.Why = wire.Wnd4Cancelled
	default:
		d.Whynone.Why = wire.Wnd4Resource
	}
	return d
}
