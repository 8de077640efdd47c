package nfs3

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxName is the longest name that any file system here could have. Longer
// ones are answered without asking it.
const maxName = 255

// checkName refuses names that no file system may see.
func checkName(name []byte) wire.NFSStat3 {
	switch {
	case len(name) == 0:
		return wire.NFS3ErrAccess // knfsd's answer, and what clients know
	case len(name) > maxName:
		return wire.NFS3ErrNameTooLong
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return wire.NFS3ErrInvalid
	}
	return wire.NFS3OK
}

// lookup is LOOKUP (RFC 1813 §3.3.3).
func (r *request) lookup() rpc.Outcome {
	var args wire.Lookup3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Lookup3Res
	r.attr = vfs.Attr{}
	if res.Status = checkName(args.What.Name); res.Status == wire.NFS3OK {
		obj, err := r.fs().Lookup(&r.op, r.handle, args.What.Name, &r.attr)
		if blocked(err) {
			return r.block()
		}
		if res.Status = status(err); err == nil {
			res.ResOK.Object = r.seal(obj.Handle)
			if obj.HasAttr {
				res.ResOK.ObjAttributes = postOp(&obj.Attr)
			}
		}
	}
	res.ResOK.DirAttributes = postOp(&r.attr)
	res.ResFail.DirAttributes = res.ResOK.DirAttributes
	res.Encode(r.w)
	return rpc.Done
}

// readlink is READLINK (RFC 1813 §3.3.5). The text may be placed directly.
func (r *request) readlink() rpc.Outcome {
	var args wire.Readlink3Args
	args.Decode(r.args)
	if r.args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.Readlink3Res
	text := r.memory(nfs.MaxPath)
	if text == nil {
		return rpc.SystemErr
	}
	r.attr = vfs.Attr{}
	n, err := r.fs().ReadLink(&r.op, r.handle, text, &r.attr)
	if blocked(err) {
		return r.block()
	}
	res.Status = status(err)
	res.ResOK.SymlinkAttributes = postOp(&r.attr)
	res.ResFail.SymlinkAttributes = res.ResOK.SymlinkAttributes
	if err == nil {
		res.ResOK.Data = r.eligible(text[:n:n])
	}
	res.Encode(r.w)
	return rpc.Done
}
