package client

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Read reads up to len(p) bytes at offset into p (RFC 1813 §3.3.6). Over RDMA the server writes
// the data into p; over TCP the data of a long reply is read from the socket directly into p. The
// server may return fewer bytes; eof means that the file ends with them.
func (n NFS3) Read(ctx context.Context, file Handle, offset uint64, p []byte) (count int, eof bool, err error) {
	if n.Sizes != nil {
		p = n.Sizes.cutRead(p)
	}
	args := nfs3wire.Read3Args{FileHandle: wireHandle(file), Offset: offset, Count: uint32(len(p))}
	x := n.exchange(nfs3wire.ProcRead, &args)
	x.Sinks, x.Locate = [][]byte{p}, LocateReadData
	var res nfs3wire.Read3Res
	err = n.do(ctx, x, &res, func() error {
		count, eof, err = TakeReadData(&res.ResOK, p)
		return err
	})
	return count, eof, err
}

// TakeReadData copies the data of a READ to p, the call's sink, unless the transport placed
// it there already. count is the number of bytes; eof means that the file ends with them.
// If there are more bytes than p has room for, or not as many as the reply states, the
// error wraps rpc.ErrBadReply.
func TakeReadData(res *nfs3wire.Read3ResOK, p []byte) (count int, eof bool, err error) {
	if n := len(res.Data.Data); n > len(p) || int64(n) != int64(res.Count) {
		return 0, false, fmt.Errorf("%w: READ of %d bytes returned %d and says %d", rpc.ErrBadReply, len(p), n, res.Count)
	}
	return takeData(res.Data.Data, p), res.EOF, nil
}

// takeData copies the data of a READ to p, unless the transport placed it there already.
func takeData(data, p []byte) int {
	if len(data) > 0 && &data[0] != &p[0] {
		copy(p, data)
	}
	return len(data)
}

// A Written is the outcome of a WRITE.
type Written struct {
	// Count is the number of bytes that the server took; it may be fewer than offered.
	Count int
	// Committed is the stability of the bytes. Verifier changes when the server has lost
	// uncommitted data.
	Committed nfs3wire.StableHow
	Verifier  nfs3wire.WriteVerf3
}

// Write writes p at offset (RFC 1813 §3.3.7). The transport sends p without a copy, so the
// caller must not change it before Write returns.
func (n NFS3) Write(ctx context.Context, file Handle, offset uint64, p []byte, stable nfs3wire.StableHow) (w Written, err error) {
	if p, err = n.writable(ctx, file, p); err != nil {
		return w, err
	}
	args := nfs3wire.Write3Args{
		FileHandle: wireHandle(file), Offset: offset, Count: uint32(len(p)), Stable: stable, Data: xdr.Eligible{Data: p},
	}
	var res nfs3wire.Write3Res
	x := n.exchange(nfs3wire.ProcWrite, &args)
	x.MaxArgs = nfs3wire.Write3ArgsMaxReducedSize // the binding counts the data
	err = n.do(ctx, x, &res, func() error {
		if res.ResOK.Count > uint32(len(p)) {
			return fmt.Errorf("%w: WRITE of %d bytes wrote %d", rpc.ErrBadReply, len(p), res.ResOK.Count)
		}
		w = Written{int(res.ResOK.Count), res.ResOK.Committed, res.ResOK.Verf}
		return nil
	})
	return w, err
}

// Commit makes the server store the unstable writes in a range on stable storage (RFC 1813
// §3.3.21). If count is 0, the range extends to the file's end.
func (n NFS3) Commit(ctx context.Context, file Handle, offset uint64, count uint32) (nfs3wire.WriteVerf3, error) {
	args := nfs3wire.Commit3Args{FileHandle: wireHandle(file), Offset: offset, Count: count}
	var res nfs3wire.Commit3Res
	err := n.do(ctx, n.exchange(nfs3wire.ProcCommit, &args), &res, nil)
	return res.ResOK.Verf, err
}

// Readlink reads the text of a symbolic link (RFC 1813 §3.3.5).
func (n NFS3) Readlink(ctx context.Context, link Handle) (text string, err error) {
	args := nfs3wire.Readlink3Args{Symlink: wireHandle(link)}
	var res nfs3wire.Readlink3Res
	err = n.do(ctx, n.exchange(nfs3wire.ProcReadlink, &args), &res, func() error {
		text = string(res.ResOK.Data.Data)
		return nil
	})
	return text, err
}
