package client

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Getattr gives the attributes of a file (RFC 1813 §3.3.1).
func (n NFS3) Getattr(ctx context.Context, file Handle) (attr nfs3wire.Fattr3, err error) {
	args := nfs3wire.Getattr3Args{Object: wireHandle(file)}
	err = n.call(ctx, nfs3wire.ProcGetattr, &args, nfs3wire.Getattr3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Getattr3Res
		res.Decode(d)
		attr = res.ResOK.ObjAttributes
		return outcome(d, nfs3wire.ProcGetattr, res.Status)
	})
	return attr, err
}

// Setattr changes attributes (RFC 1813 §3.3.2), unconditionally.
func (n NFS3) Setattr(ctx context.Context, file Handle, change nfs3wire.Sattr3) error {
	args := nfs3wire.Setattr3Args{Object: wireHandle(file), NewAttributes: change}
	return n.call(ctx, nfs3wire.ProcSetattr, &args, nfs3wire.Setattr3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Setattr3Res
		res.Decode(d)
		return outcome(d, nfs3wire.ProcSetattr, res.Status)
	})
}

// Access returns the rights that the caller has, of those asked for (nfs3wire.Access3Read
// and so on) (RFC 1813 §3.3.4).
func (n NFS3) Access(ctx context.Context, file Handle, rights uint32) (granted uint32, err error) {
	args := nfs3wire.Access3Args{Object: wireHandle(file), Access: rights}
	err = n.call(ctx, nfs3wire.ProcAccess, &args, nfs3wire.Access3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Access3Res
		res.Decode(d)
		granted = res.ResOK.Access
		return outcome(d, nfs3wire.ProcAccess, res.Status)
	})
	return granted, err
}

// Fsinfo returns a file system's limits (RFC 1813 §3.3.19).
func (n NFS3) Fsinfo(ctx context.Context, root Handle) (info nfs3wire.Fsinfo3ResOK, err error) {
	args := nfs3wire.Fsinfo3Args{FSRoot: wireHandle(root)}
	err = n.call(ctx, nfs3wire.ProcFsinfo, &args, nfs3wire.Fsinfo3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Fsinfo3Res
		res.Decode(d)
		info = res.ResOK
		return outcome(d, nfs3wire.ProcFsinfo, res.Status)
	})
	return info, err
}

// Fsstat returns the used and free space of a file system (RFC 1813 §3.3.18).
func (n NFS3) Fsstat(ctx context.Context, root Handle) (stat nfs3wire.Fsstat3ResOK, err error) {
	args := nfs3wire.Fsstat3Args{FSRoot: wireHandle(root)}
	err = n.call(ctx, nfs3wire.ProcFsstat, &args, nfs3wire.Fsstat3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Fsstat3Res
		res.Decode(d)
		stat = res.ResOK
		return outcome(d, nfs3wire.ProcFsstat, res.Status)
	})
	return stat, err
}

// Pathconf returns the limits of names (RFC 1813 §3.3.20).
func (n NFS3) Pathconf(ctx context.Context, file Handle) (conf nfs3wire.Pathconf3ResOK, err error) {
	args := nfs3wire.Pathconf3Args{Object: wireHandle(file)}
	err = n.call(ctx, nfs3wire.ProcPathconf, &args, nfs3wire.Pathconf3ArgsMaxSize, nil, func(d *xdr.Decoder) error {
		var res nfs3wire.Pathconf3Res
		res.Decode(d)
		conf = res.ResOK
		return outcome(d, nfs3wire.ProcPathconf, res.Status)
	})
	return conf, err
}
