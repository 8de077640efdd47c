package soak

import (
	"context"
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// version40 uses NFSv4.0 (RFC 7530). Each open has an owner of its own, so that the owner's seqids
// begin at 1 for each open.
type version40 struct {
	way
	name     string
	verifier wire.Verifier4
	id       uint64
	owners   int
	// piece is the greatest number of bytes of a READ. Over RDMA a READ uses no chunks, so piece
	// is small.
	piece int
}

func (v *version40) compound(ctx context.Context, take func() error, ops ...client.Op) error {
	return v.do(ctx, func(c *client.Conn, _ bool) error { return c.Compound(ctx, 0, ops, take) })
}

func put(h client.Handle) client.Op {
	if h == nil {
		return client.Op{Number: wire.OpPutRootFH}
	}
	return client.Op{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: wire.NFSFH4(h)}}
}

// begin creates and confirms a client ID.
func (v *version40) begin(ctx context.Context) error {
	var res wire.SetClientID4Res
	err := v.compound(ctx, func() error {
		v.id = res.ResOK.Clientid
		return nil
	}, client.Op{Number: wire.OpSetClientID, Args: &wire.SetClientID4Args{
		Client:   wire.NFSClientID4{ID: []byte(v.name), Verifier: v.verifier},
		Callback: wire.CBClient4{CBProgram: 0x40000000, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.0.0")}},
	}, Res: &res})
	if err != nil {
		return err
	}
	return v.compound(ctx, nil, client.Op{Number: wire.OpSetClientIDConfirm, Args: &wire.SetClientIDConfirm4Args{
		Clientid: v.id, SetclientidConfirm: res.ResOK.SetclientidConfirm,
	}})
}

// Root implements caller.
func (v *version40) Root(ctx context.Context, export string) (root client.Handle, err error) {
	if err := v.begin(ctx); err != nil {
		return nil, err
	}
	var fh ownHandle
	err = v.compound(ctx, nil, put(nil), client.Op{Number: wire.OpLookup, Args: &wire.Lookup4Args{Objname: wire.UTF8String(export[1:])}},
		client.Op{Number: wire.OpGetFH, Res: &fh})
	return fh.own, err
}

// sequenced makes a compound with the owner's seqid *number. It increments the seqid after every
// answer, except after the errors in unused (RFC 7530 §9.1.7).
func (v *version40) sequenced(ctx context.Context, number *uint32, ops func() []client.Op) error {
	return v.do(ctx, func(c *client.Conn, _ bool) error {
		err := c.Compound(ctx, 0, ops(), nil)
		if answered(err) && !slices.Contains(unused, statusOf(err)) {
			*number++
		}
		return err
	})
}

var unused = []wire.NFSStat4{
	wire.NFS4ErrStaleClientID, wire.NFS4ErrStaleStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadSeqID,
	wire.NFS4ErrBadXDR, wire.NFS4ErrResource, wire.NFS4ErrNoFileHandle, wire.NFS4ErrMoved,
}

// Open implements caller. It locks the whole file.
func (v *version40) Open(ctx context.Context, dir client.Handle, name string) (*file, error) {
	v.owners++
	f := &file{owner: fmt.Appendf(nil, "owner %d", v.owners), openSeq: 1, lockSeq: 1}
	owner := wire.StateOwner4{Clientid: v.id, Owner: f.owner}
	var opened wire.Open4Res
	var fh ownHandle
	err := v.sequenced(ctx, &f.openSeq, func() []client.Op {
		return []client.Op{put(dir), {Number: wire.OpOpen, Args: &wire.Open4Args{
			Seqid: f.openSeq, ShareAccess: wire.Open4ShareAccessBoth, Owner: owner,
			Openhow: wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)}},
			Claim:   wire.OpenClaim4{Claim: wire.ClaimNull, File: wire.UTF8String(name)},
		}, Res: &opened}, {Number: wire.OpGetFH, Res: &fh}}
	})
	if err != nil {
		return nil, err
	}
	f.handle, f.open = fh.own, opened.ResOK.Stateid
	if opened.ResOK.Rflags&wire.Open4ResultConfirm != 0 {
		var confirmed wire.OpenConfirm4Res
		err := v.sequenced(ctx, &f.openSeq, func() []client.Op {
			return []client.Op{put(f.handle), {
				Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: f.open, Seqid: f.openSeq}, Res: &confirmed,
			}}
		})
		if err != nil {
			return nil, err
		}
		f.open = confirmed.ResOK.Stateid
	}
	var locked wire.Lock4Res
	err = v.sequenced(ctx, &f.openSeq, func() []client.Op {
		return []client.Op{put(f.handle), {Number: wire.OpLock, Args: &wire.Lock4Args{
			Locktype: wire.WriteLt, Length: wire.NFS4Maxfilelen,
			Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
				OpenSeqid: f.openSeq, OpenStateid: f.open, LockSeqid: f.lockSeq, LockOwner: owner,
			}},
		}, Res: &locked}}
	})
	f.lockSeq++
	f.lock = locked.ResOK.LockStateid
	return f, err
}

// ownHandle is the result of GETFH. own is a copy of the handle that stays valid after the reply.
type ownHandle struct {
	wire.GetFH4Res
	own client.Handle
}

// Decode implements client.Decoder.
func (r *ownHandle) Decode(d *xdr.Decoder) {
	r.GetFH4Res.Decode(d)
	r.own = slices.Clone(client.Handle(r.ResOK.Object))
}

// Read implements caller.
func (v *version40) Read(ctx context.Context, f *file, at uint64, b []byte) (n int, err error) {
	b = b[:min(len(b), v.piece)]
	var res wire.Read4Res
	err = v.compound(ctx, func() error {
		n = copy(b, res.ResOK.Data.Data)
		return nil
	}, put(f.handle), client.Op{Number: wire.OpRead, Args: &wire.Read4Args{Stateid: f.lock, Offset: at, Count: uint32(len(b))}, Res: &res})
	return n, err
}

// Write implements caller.
func (v *version40) Write(ctx context.Context, f *file, at uint64, b []byte, stable bool) (int, error) {
	how := wire.Unstable4
	if stable {
		how = wire.FileSync4
	}
	var res wire.Write4Res
	err := v.compound(ctx, nil, put(f.handle), client.Op{
		Number: wire.OpWrite, Args: &wire.Write4Args{Stateid: f.lock, Offset: at, Stable: how, Data: xdr.Eligible{Data: b}}, Res: &res,
	})
	return int(res.ResOK.Count), err
}

// Resize implements caller.
func (v *version40) Resize(ctx context.Context, f *file, size uint64) error {
	var res wire.Setattr4Res
	return v.compound(ctx, nil, put(f.handle), client.Op{
		Number: wire.OpSetattr, Args: &wire.Setattr4Args{Stateid: f.lock, ObjAttributes: client.SizeAttribute(size)}, Res: &res,
	})
}

// Release implements caller.
func (v *version40) Release(ctx context.Context, f *file) error {
	var unlocked wire.Locku4Res
	err := v.sequenced(ctx, &f.lockSeq, func() []client.Op {
		return []client.Op{put(f.handle), {Number: wire.OpLocku, Args: &wire.Locku4Args{
			Locktype: wire.WriteLt, Seqid: f.lockSeq, LockStateid: f.lock, Length: wire.NFS4Maxfilelen,
		}, Res: &unlocked}}
	})
	if err != nil {
		return err
	}
	var closed wire.Close4Res
	return v.sequenced(ctx, &f.openSeq, func() []client.Op {
		return []client.Op{put(f.handle), {Number: wire.OpClose, Args: &wire.Close4Args{Seqid: f.openSeq, OpenStateid: f.open}, Res: &closed}}
	})
}

// Rename implements caller.
func (v *version40) Rename(ctx context.Context, dir client.Handle, from, to string) error {
	return v.do(ctx, func(c *client.Conn, again bool) error {
		var res wire.Rename4Res
		return gone(c.Compound(ctx, 0, []client.Op{
			put(dir), {Number: wire.OpSaveFH}, put(dir),
			{Number: wire.OpRename, Args: &wire.Rename4Args{Oldname: wire.UTF8String(from), Newname: wire.UTF8String(to)}, Res: &res},
		}, nil), again)
	})
}

// Remove implements caller.
func (v *version40) Remove(ctx context.Context, dir client.Handle, name string) error {
	return v.do(ctx, func(c *client.Conn, again bool) error {
		var res wire.Remove4Res
		return gone(c.Compound(ctx, 0, []client.Op{
			put(dir), {Number: wire.OpRemove, Args: &wire.Remove4Args{Target: wire.UTF8String(name)}, Res: &res},
		}, nil), again)
	})
}
