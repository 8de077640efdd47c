package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// getattr is GETATTR (RFC 1813 §3.3.1).
func (r *request) getattr() rpc.Outcome {
	var args wire.Getattr3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Getattr3Res
	err := r.fs().GetAttr(&r.op, r.handle, &r.attr)
	if blocked(err) {
		return r.block()
	}
	if res.Status = status(err); err == nil {
		res.ResOK.ObjAttributes = fattr(&r.attr)
	}
	res.Encode(r.w)
	return rpc.Done
}

// setattr is SETATTR (RFC 1813 §3.3.2). If the client sends a guard, the file's ctime must
// equal it.
func (r *request) setattr() rpc.Outcome {
	var args wire.Setattr3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Setattr3Res
	setAttr(&args.NewAttributes, &r.set)
	var guard *vfs.Time
	if args.Guard.Check {
		r.guard = vfsTime(args.Guard.ObjCtime)
		guard = &r.guard
	}
	use := state.UseAttributes
	if r.set.SetSize {
		use = state.UseWrite
	}
	var ch vfs.Change
	err := r.may(use, r.handle, nil)
	if err == nil {
		ch, err = r.fs().SetAttr(&r.op, r.handle, &r.set, guard)
	}
	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK.ObjWcc = wcc(&ch)
	res.ResFail.ObjWcc = res.ResOK.ObjWcc
	res.Encode(r.w)
	return rpc.Done
}

// access is ACCESS (RFC 1813 §3.3.4). On a read-only export it grants no right that allows a
// change.
func (r *request) access() rpc.Outcome {
	var args wire.Access3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Access3Res
	want := vfs.Access(args.Access) & (vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute)
	if r.export.ReadOnly {
		want &^= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	}
	r.attr = vfs.Attr{}
	granted, err := r.fs().Access(&r.op, r.handle, want, &r.attr)
	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK = wire.Access3ResOK{ObjAttributes: postOp(&r.attr), Access: uint32(granted)}
	res.ResFail.ObjAttributes = res.ResOK.ObjAttributes
	res.Encode(r.w)
	return rpc.Done
}
