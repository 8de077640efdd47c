package client

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Getattr returns the attributes of a file (RFC 1813 §3.3.1).
func (n NFS3) Getattr(ctx context.Context, file Handle) (nfs3wire.Fattr3, error) {
	args := nfs3wire.Getattr3Args{Object: wireHandle(file)}
	var res nfs3wire.Getattr3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcGetattr, &args, nfs3wire.Getattr3ArgsMaxSize), &res, &res.Status, nil)
	return res.ResOK.ObjAttributes, err
}

// Setattr changes attributes (RFC 1813 §3.3.2). It does not use the guard by which a client can
// make the change depend on the file's ctime.
func (n NFS3) Setattr(ctx context.Context, file Handle, change nfs3wire.Sattr3) error {
	args := nfs3wire.Setattr3Args{Object: wireHandle(file), NewAttributes: change}
	var res nfs3wire.Setattr3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcSetattr, &args, nfs3wire.Setattr3ArgsMaxSize), &res, &res.Status, nil)
}

// Access returns those of the given rights (nfs3wire.Access3Read and so on) that the caller has
// (RFC 1813 §3.3.4).
func (n NFS3) Access(ctx context.Context, file Handle, rights uint32) (uint32, error) {
	args := nfs3wire.Access3Args{Object: wireHandle(file), Access: rights}
	var res nfs3wire.Access3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcAccess, &args, nfs3wire.Access3ArgsMaxSize), &res, &res.Status, nil)
	return res.ResOK.Access, err
}

// Fsinfo returns a file system's limits (RFC 1813 §3.3.19).
func (n NFS3) Fsinfo(ctx context.Context, root Handle) (nfs3wire.Fsinfo3ResOK, error) {
	args := nfs3wire.Fsinfo3Args{FSRoot: wireHandle(root)}
	var res nfs3wire.Fsinfo3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcFsinfo, &args, nfs3wire.Fsinfo3ArgsMaxSize), &res, &res.Status, nil)
	return res.ResOK, err
}

// Fsstat returns the used and free space of a file system (RFC 1813 §3.3.18).
func (n NFS3) Fsstat(ctx context.Context, root Handle) (nfs3wire.Fsstat3ResOK, error) {
	args := nfs3wire.Fsstat3Args{FSRoot: wireHandle(root)}
	var res nfs3wire.Fsstat3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcFsstat, &args, nfs3wire.Fsstat3ArgsMaxSize), &res, &res.Status, nil)
	return res.ResOK, err
}

// Pathconf returns the limits of names (RFC 1813 §3.3.20).
func (n NFS3) Pathconf(ctx context.Context, file Handle) (nfs3wire.Pathconf3ResOK, error) {
	args := nfs3wire.Pathconf3Args{Object: wireHandle(file)}
	var res nfs3wire.Pathconf3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcPathconf, &args, nfs3wire.Pathconf3ArgsMaxSize), &res, &res.Status, nil)
	return res.ResOK, err
}
