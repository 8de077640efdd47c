package client

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Read reads up to len(p) bytes at offset into p (RFC 8881 §18.22). id is the stateid of an open,
// a lock or a delegation, or a special stateid such as the zero value. Over RDMA the server
// writes the data into p. The server may return fewer bytes; eof means that the file ends with
// them.
func (n NFS4) Read(ctx context.Context, file Handle, id nfs4wire.StateID4, offset uint64, p []byte) (count int, eof bool, err error) {
	p = n.Session.sizes.cutRead(p)
	args := nfs4wire.Read4Args{Stateid: id, Offset: offset, Count: uint32(len(p))}
	var res nfs4wire.Read4Res
	c := Compound{
		Ops: []Op{put(file), {nfs4wire.OpRead, &args, &res}}, Sinks: [][]byte{p}, MaxResults: readResults,
	}
	err = n.do(ctx, &c, func() error {
		count, eof, err = TakeRead4Data(&res.ResOK, p)
		return err
	})
	return count, eof, err
}

// readResults is the length of the results of PUTFH and READ without the data, in bytes.
const readResults = 2*8 + 4 + 4

// TakeRead4Data copies the data of a READ to p, the call's sink, unless the transport
// placed it there already. count is the number of bytes; eof means that the file ends with
// them. If there are more bytes than p has room for, the error wraps rpc.ErrBadReply.
func TakeRead4Data(res *nfs4wire.Read4ResOK, p []byte) (count int, eof bool, err error) {
	if n := len(res.Data.Data); n > len(p) {
		return 0, false, fmt.Errorf("%w: READ of %d bytes returned %d", rpc.ErrBadReply, len(p), n)
	}
	return takeData(res.Data.Data, p), res.EOF, nil
}

// A Written4 is the outcome of a WRITE.
type Written4 struct {
	// Count is the number of bytes that the server took; it may be fewer than offered.
	Count int
	// Committed is the stability of the bytes. Verifier changes when the server has lost
	// uncommitted data.
	Committed nfs4wire.StableHow4
	Verifier  nfs4wire.Verifier4
}

// Write writes p at offset (RFC 8881 §18.32). The transport sends p without a copy, so the
// caller must not change it before Write returns.
func (n NFS4) Write(ctx context.Context, file Handle, id nfs4wire.StateID4, offset uint64, p []byte, stable nfs4wire.StableHow4) (w Written4, err error) {
	p = n.Session.sizes.cutWrite(p)
	args := nfs4wire.Write4Args{Stateid: id, Offset: offset, Stable: stable, Data: xdr.Eligible{Data: p}}
	var res nfs4wire.Write4Res
	err = n.do(ctx, &Compound{Cache: true, Ops: []Op{put(file), {nfs4wire.OpWrite, &args, &res}}}, func() error {
		if res.ResOK.Count > uint32(len(p)) {
			return fmt.Errorf("%w: WRITE of %d bytes wrote %d", rpc.ErrBadReply, len(p), res.ResOK.Count)
		}
		w = Written4{int(res.ResOK.Count), res.ResOK.Committed, res.ResOK.Writeverf}
		return nil
	})
	return w, err
}

// Commit makes the server store the unstable writes in a range on stable storage (RFC 8881
// §18.3). If count is 0, the range extends to the file's end.
func (n NFS4) Commit(ctx context.Context, file Handle, offset uint64, count uint32) (verf nfs4wire.Verifier4, err error) {
	var res nfs4wire.Commit4Res
	err = n.do(ctx, &Compound{Ops: []Op{
		put(file), {nfs4wire.OpCommit, &nfs4wire.Commit4Args{Offset: offset, Count: count}, &res},
	}}, nil)
	return res.ResOK.Writeverf, err
}
