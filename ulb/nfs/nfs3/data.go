package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// read is READ (RFC 1813 §3.3.6). The file system reads into the memory reserved for the
// call, and the transport sends from there.
func (r *request) read(args *wire.Read3Args, res *wire.Read3Res) error {
	// The server may answer a READ with fewer bytes than the client asked for: as many as the reply can carry.
	room := r.call.ResultRoom(r.w, wire.Read3ResMaxReducedSize)
	buf := r.call.ResultMemory(min(int(min(args.Count, nfs.MaxTransfer)), room))
	if buf == nil && args.Count > 0 {
		return errNoMemory
	}
	var n int
	var eof bool
	err := r.may(state.UseRead, r.handle, nil)
	if err == nil {
		n, eof, err = r.fs().Read(&r.op, r.handle, args.Offset, buf, &r.attr)
	}
	res.Status = export.StatusOf(err)
	res.ResOK = wire.Read3ResOK{FileAttributes: postOp(&r.attr), Count: uint32(n), EOF: eof}
	res.ResFail.FileAttributes = res.ResOK.FileAttributes
	if err == nil {
		res.ResOK.Data = r.call.Eligible(buf[:n:n])
		r.export.DidRead(r.call.Conn, n)
	}
	return err
}

// write is WRITE (RFC 1813 §3.3.7). The file system gets the slice in which the transport
// placed the data, without a copy.
func (r *request) write(args *wire.Write3Args, res *wire.Write3Res) error {
	if int64(args.Count) != int64(len(args.Data.Data)) {
		return errGarbage
	}
	r.data[0] = args.Data.Data
	// The verifier is read before the write. If a sync fails during the write, it may lose
	// this data. The client then sees another verifier in the reply to its COMMIT.
	verf := wire.WriteVerf3(r.fs().Verifier())
	var n int
	var done vfs.Stability
	var ch vfs.Change
	err := r.may(state.UseWrite, r.handle, nil)
	if err == nil {
		n, done, ch, err = r.fs().Write(&r.op, r.handle, args.Offset, r.data[:], vfs.Stability(args.Stable))
	}
	if err == nil {
		r.export.DidWrite(r.call.Conn, n)
	}
	res.Status = export.StatusOf(err)
	res.ResOK = wire.Write3ResOK{FileWcc: wcc(&ch), Count: uint32(n), Committed: wire.StableHow(done), Verf: verf}
	res.ResFail.FileWcc = res.ResOK.FileWcc
	return err
}

// commit is COMMIT (RFC 1813 §3.3.21).
func (r *request) commit(args *wire.Commit3Args, res *wire.Commit3Res) error {
	ch, err := r.fs().Commit(&r.op, r.handle, args.Offset, args.Count)
	res.Status = export.StatusOf(err)
	if res.Status == wire.NFS3ErrNoSpace || res.Status == wire.NFS3ErrDQuot {
		res.Status = wire.NFS3ErrIO // COMMIT has no other status for lost data
	}
	res.ResOK = wire.Commit3ResOK{FileWcc: wcc(&ch), Verf: wire.WriteVerf3(r.fs().Verifier())}
	res.ResFail.FileWcc = res.ResOK.FileWcc
	return err
}
