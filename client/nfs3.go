package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A Handle names a file to its server. It is opaque, and at most 64 bytes long.
type Handle []byte

// A StatusError means that the server executed a call and answered with a status other than
// NFS3_OK.
type StatusError struct {
	Procedure nfs3wire.Procedure
	Status    nfs3wire.NFSStat3
}

func (e *StatusError) Error() string { return fmt.Sprintf("client: %v: %v", e.Procedure, e.Status) }

// NFS3 makes the calls of NFS version 3 (RFC 1813 §3). Each method waits for its reply or
// for the end of its context. An error is a *StatusError if the server executed the call
// and refused it, a *rpc.ReplyError if RPC refused it, and the transport's error otherwise.
// The caller may keep everything that a method returns. Any goroutine may call the methods.
type NFS3 struct {
	Caller rpc.Caller
	// Cred goes with each call; the zero value is AUTH_NONE.
	Cred rpc.AuthBytes
	// Sizes limits READs and WRITEs to what the server takes. Fsinfo stores the limits there, and the
	// first long WRITE asks for them. If Sizes is nil, the caller keeps to the limits itself: a server
	// may end the connection on a longer WRITE.
	Sizes *Sizes
}

// exchange returns a call without its results.
func (n NFS3) exchange(p nfs3wire.Procedure, args Encoder) *rpc.Exchange {
	binding := &nfs.Binding3.Procedures[p]
	return &rpc.Exchange{
		Program: nfs3wire.Program, Version: nfs3wire.Version, Procedure: uint32(p), Cred: n.Cred,
		Binding: binding, Args: args.Encode, MaxArgs: binding.MaxArgs,
	}
}

// do makes a call and decodes its results, which begin with a status, into res. If the call succeeded,
// do calls the function take, unless it is nil, while the memory of the results is valid, and returns
// its error.
func (n NFS3) do(ctx context.Context, x *rpc.Exchange, res Decoder, take func() error) error {
	return rpc.Do(ctx, n.Caller, x, func(d *xdr.Decoder) error {
		p, peek := nfs3wire.Procedure(x.Procedure), *d
		status := nfs3wire.NFSStat3(peek.Int32())
		res.Decode(d)
		switch {
		case d.Err() != nil:
			return fmt.Errorf("%w: %v: %w", rpc.ErrBadReply, p, d.Err())
		case status != nfs3wire.NFS3OK:
			return &StatusError{p, status}
		case take != nil:
			return take()
		}
		return nil
	})
}

// LocateReadData finds the data in the results of READ: see rpc.Exchange.Locate.
func LocateReadData(results xdr.Decoder) (position, length int) {
	if nfs3wire.NFSStat3(results.Int32()) != nfs3wire.NFS3OK {
		return 0, 0
	}
	if results.Bool() {
		results.Skip(nfs3wire.Fattr3MaxSize)
	}
	results.Skip(4 + 4) // count, eof
	n := results.Uint32()
	if results.Err() != nil {
		return 0, 0
	}
	return results.Position(), int(n)
}

// wireHandle returns h as a wire type.
func wireHandle(h Handle) nfs3wire.FileHandle3 { return nfs3wire.FileHandle3{Data: h} }

// given returns the handle and the attributes in a reply. Each is nil if the reply has none.
func given(h *nfs3wire.PostOpFH3, a *nfs3wire.PostOpAttr) (Handle, *nfs3wire.Fattr3) {
	var handle Handle
	if h.HandleFollows {
		handle = slices.Clone(h.Handle.Data)
	}
	return handle, attributes(a)
}

func attributes(a *nfs3wire.PostOpAttr) *nfs3wire.Fattr3 {
	if !a.AttributesFollow {
		return nil
	}
	attr := a.Attributes
	return &attr
}

// Getattr returns the attributes of a file (RFC 1813 §3.3.1).
func (n NFS3) Getattr(ctx context.Context, file Handle) (nfs3wire.Fattr3, error) {
	args := nfs3wire.Getattr3Args{Object: wireHandle(file)}
	var res nfs3wire.Getattr3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcGetattr, &args), &res, nil)
	return res.ResOK.ObjAttributes, err
}

// Setattr changes attributes (RFC 1813 §3.3.2). It does not use the guard by which a client can
// make the change depend on the file's ctime.
func (n NFS3) Setattr(ctx context.Context, file Handle, change nfs3wire.Sattr3) error {
	args := nfs3wire.Setattr3Args{Object: wireHandle(file), NewAttributes: change}
	var res nfs3wire.Setattr3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcSetattr, &args), &res, nil)
}

// Access returns those of the given rights (nfs3wire.Access3Read and so on) that the caller has
// (RFC 1813 §3.3.4).
func (n NFS3) Access(ctx context.Context, file Handle, rights uint32) (uint32, error) {
	args := nfs3wire.Access3Args{Object: wireHandle(file), Access: rights}
	var res nfs3wire.Access3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcAccess, &args), &res, nil)
	return res.ResOK.Access, err
}

// Fsinfo returns a file system's limits (RFC 1813 §3.3.19).
func (n NFS3) Fsinfo(ctx context.Context, root Handle) (nfs3wire.Fsinfo3ResOK, error) {
	args := nfs3wire.Fsinfo3Args{FSRoot: wireHandle(root)}
	var res nfs3wire.Fsinfo3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcFsinfo, &args), &res, nil)
	if err == nil && n.Sizes != nil {
		n.Sizes.learn(&res.ResOK)
	}
	return res.ResOK, err
}

// Fsstat returns the used and free space of a file system (RFC 1813 §3.3.18).
func (n NFS3) Fsstat(ctx context.Context, root Handle) (nfs3wire.Fsstat3ResOK, error) {
	args := nfs3wire.Fsstat3Args{FSRoot: wireHandle(root)}
	var res nfs3wire.Fsstat3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcFsstat, &args), &res, nil)
	return res.ResOK, err
}

// Pathconf returns the limits of names (RFC 1813 §3.3.20).
func (n NFS3) Pathconf(ctx context.Context, file Handle) (nfs3wire.Pathconf3ResOK, error) {
	args := nfs3wire.Pathconf3Args{Object: wireHandle(file)}
	var res nfs3wire.Pathconf3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcPathconf, &args), &res, nil)
	return res.ResOK, err
}
