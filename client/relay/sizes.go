package relay

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// sizes are what the server has said about the calls that it takes, in bytes; 0 means not known. A
// call that is longer never reaches the server, because some servers do worse than to refuse it. If
// the server's file systems differ, the largest sizes count.
type sizes struct {
	write atomic.Int64 // the data of a WRITE
	call  atomic.Int64 // a call without its header, if write is known
}

// Lengths of calls, in bytes: smallCall is one that every server takes, with the largest WRITE of NFS
// version 2. aroundWrite is how much longer a call may be than the data of a WRITE, without its
// header. Linux's server has a page for both.
const (
	smallCall   = 8<<10 + aroundWrite
	aroundWrite = 3 << 10
)

func raise(size *atomic.Int64, to int64) {
	for {
		now := size.Load()
		if now >= to || size.CompareAndSwap(now, to) {
			return
		}
	}
}

// learnWrite notes the server's largest WRITE. learnCall notes that a session may make calls of n bytes:
// the server may take longer ones, if the client has not asked for them.
func (z *sizes) learnWrite(n uint64) {
	if n == 0 {
		return // it says nothing
	}
	raise(&z.call, int64(min(n, maxRecord))+aroundWrite)
	raise(&z.write, int64(min(n, maxRecord)))
}

func (z *sizes) learnCall(n uint32) { raise(&z.call, int64(n)) }

// judge returns an error if the server does not take the call. known is false if that is not known.
func (z *sizes) judge(f *forward) (known bool, err error) {
	length, most := int64(len(f.args)), z.call.Load()
	if f.isWrite3() {
		length, most = int64(len(f.item)), z.write.Load()
	}
	switch {
	case len(f.args) <= smallCall:
		return true, nil
	case f.x.Program == mount3wire.Program: // its calls are short
		most = smallCall
	case z.write.Load() == 0:
		return false, nil
	}
	if length > most {
		return true, fmt.Errorf("relay: a call with %d bytes, but the server takes at most %d", length, most)
	}
	return true, nil
}

func (f *forward) isWrite3() bool {
	return f.x.Program == nfs3wire.Program && f.x.Version == nfs3wire.Version && nfs3wire.Procedure(f.x.Procedure) == nfs3wire.ProcWrite
}

// learn takes the server's sizes from a reply that passes: from FSINFO (RFC 1813 §3.3.19), and from
// CREATE_SESSION (RFC 8881 §18.36).
func (f *forward) learn() {
	if f.x.Program != nfs3wire.Program || f.session == nil {
		return
	}
	z, d := &f.session.relay.sizes, f.x.Results
	switch {
	case f.x.Version == nfs3wire.Version && nfs3wire.Procedure(f.x.Procedure) == nfs3wire.ProcFsinfo:
		var res nfs3wire.Fsinfo3Res
		if res.Decode(&d); d.Err() == nil && res.Status == nfs3wire.NFS3OK {
			z.learnWrite(uint64(res.ResOK.WriteMax))
		}
	case f.x.Version == wire.Version && f.x.Procedure == wire.ProcCompound && f.createsSession():
		d.Uint32() // status
		d.Opaque(xdr.NoLimit)
		d.Uint32() // number of results
		op := wire.OpNum(d.Uint32())
		var res wire.CreateSession4Res
		if res.Decode(&d); d.Err() == nil && op == wire.OpCreateSession && res.Status == wire.NFS4OK {
			z.learnCall(res.ResOK.ForeChanAttrs.Maxrequestsize)
		}
	}
}

// createsSession reports whether the first operation of a COMPOUND is CREATE_SESSION.
func (f *forward) createsSession() bool {
	d := xdr.NewDecoder(f.args)
	d.Opaque(xdr.NoLimit)
	minor, n, op := d.Uint32(), d.Uint32(), wire.OpNum(d.Uint32())
	return d.Err() == nil && minor > 0 && n > 0 && op == wire.OpCreateSession
}

// ask finds out which calls the server takes, and then sends f or ends it. A client that was mounted
// before the relay started has asked long ago.
func (f *forward) ask(c *client.Conn) {
	r := f.session.relay
	ctx, cancel := context.WithTimeout(r.life, r.cfg.Timeout)
	defer cancel()
	if f.isWrite3() {
		args := f.call.Args
		var write nfs3wire.Write3Args
		write.Decode(&args)
		// If the server does not say, the next question may help.
		info, err := client.NFS3{Caller: c.Caller(), Cred: f.x.Cred}.Fsinfo(ctx, client.Handle(write.FileHandle.Data))
		if err == nil {
			r.sizes.learnWrite(uint64(info.WriteMax))
		}
	}
	if known, _ := r.sizes.judge(f); !known {
		f.askRoot(ctx, c)
	}
	f.session.asked.Store(true)
	f.send(c)
}

// askRoot asks for the largest WRITE by the attribute maxwrite of the server's root (RFC 7530
// §5.8.2.20), which takes neither a file handle nor a session.
func (f *forward) askRoot(ctx context.Context, c *client.Conn) {
	x := &rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound, Cred: f.x.Cred, MaxArgs: 64, MaxResults: 256,
		Args: func(w *xdr.Writer) {
			w.Uint32(0) // tag
			w.Uint32(0) // minor version
			w.Uint32(2)
			w.Uint32(uint32(wire.OpPutRootFH))
			w.Uint32(uint32(wire.OpGetattr))
			(&wire.Getattr4Args{AttrRequest: wire.Bits(wire.Fattr4Maxwrite)}).Encode(w)
		},
	}
	_ = rpc.Do(ctx, c.Caller(), x, func(d *xdr.Decoder) error { // a server that does not answer this takes any call
		status := d.Uint32()
		d.Opaque(xdr.NoLimit)
		n := d.Uint32()
		d.Skip(4 + 4 + 4) // PUTROOTFH, its status, GETATTR
		var res wire.Getattr4Res
		if res.Decode(d); d.Err() == nil && status == 0 && n == 2 && len(res.ResOK.Attributes.AttrVals) == 8 {
			f.session.relay.sizes.learnWrite(binary.BigEndian.Uint64(res.ResOK.Attributes.AttrVals))
		}
		return nil
	})
}
