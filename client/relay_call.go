package client

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A relayCall is one call on its way to the server and back.
type relayCall struct {
	conn     *relayConn
	reserved int64 // of the relay's memory

	in   []byte // the call's message
	head rpc.CallHeader
	args []byte // of in
	x    rpc.Exchange

	write   nfs3wire.Write3Args
	symlink nfs3wire.Symlink3Args
	read    nfs3wire.Read3Res
	sink    [1][]byte
	room    []byte // of the sink

	out     []byte // the reply's words, mark included
	payload []byte // what stands between out[:cut] and out[cut:], and its padding
	cut     int
}

var relayCalls = sync.Pool{New: func() any {
	k := new(relayCall)
	k.x.Done = func(*rpc.Exchange) { k.replied() }
	return k
}}

// keptBuffer is how large a buffer may get that a pooled call keeps.
const keptBuffer = 1<<20 + 64<<10

// drop forgets a call.
func (k *relayCall) drop() {
	if k.reserved > 0 {
		k.conn.relay.memory.Release(k.reserved)
	}
	for _, b := range []*[]byte{&k.in, &k.out, &k.room} {
		if cap(*b) > keptBuffer {
			*b = nil
		}
	}
	k.conn, k.args, k.payload, k.head, k.reserved = nil, nil, nil, rpc.CallHeader{}, 0
	k.x = rpc.Exchange{Done: k.x.Done}
	k.sink[0] = nil
	relayCalls.Put(k)
}

// free is drop, and gives the call's slot back.
func (k *relayCall) free() {
	slots := k.conn.slots
	k.drop()
	<-slots
}

var errNotACall = errors.New("client: record is no RPC call")

// parse reads a call's header. why is AuthOK, or what to refuse it with.
func (k *relayCall) parse(message []byte) (d xdr.Decoder, why rpc.AuthStat, version uint32, err error) {
	d.Reset(message, 0, nil)
	h := &k.head
	h.XID = d.Uint32()
	t := rpc.MsgType(d.Uint32())
	version = d.Uint32()
	h.Program, h.Version, h.Procedure = d.Uint32(), d.Uint32(), d.Uint32()
	if d.Err() != nil || t != rpc.TypeCall {
		return d, 0, 0, errNotACall
	}
	h.Cred.Flavor = rpc.Flavor(d.Uint32())
	h.Cred.Body = d.Opaque(rpc.MaxAuthBytes)
	if d.Err() != nil {
		return d, rpc.AuthBadCred, version, nil
	}
	h.Verf.Flavor = rpc.Flavor(d.Uint32())
	h.Verf.Body = d.Opaque(rpc.MaxAuthBytes)
	switch {
	case d.Err() != nil, h.Verf.Flavor != rpc.AuthNone && h.Cred.Flavor != rpc.AuthGSS:
		return d, rpc.AuthBadVerf, version, nil
	case h.Cred.Flavor == rpc.AuthGSS:
		return d, rpc.AuthRejectedCred, version, nil
	}
	h.Size = d.Position()
	return d, rpc.AuthOK, version, nil
}

// row is the call's row of the binding, or nil.
func (k *relayCall) row() *rpc.Procedure {
	if k.head.Program != nfs3wire.Program || k.head.Version != nfs3wire.Version {
		return nil
	}
	if p := nfs.Binding3.Procedures; k.head.Procedure < uint32(len(p)) && p[k.head.Procedure].Name != "" {
		return &p[k.head.Procedure]
	}
	return nil
}

// foresee is how much memory the reply to a call may need, judged from its first
// bytes.
func (k *relayCall) foresee(first []byte) int {
	d, why, _, err := k.parse(first)
	if err != nil || why != rpc.AuthOK || k.head.Procedure == procNull {
		return 0
	}
	row := k.row()
	switch {
	case k.head.Program == mount3wire.Program:
		return nfs.MaxMountReply
	case k.head.Program == rpcbindProgram:
		return 0
	case row == nil:
		return k.conn.relay.cfg.MaxReply
	}
	shape, _ := row.Shape(d, nil)
	return shape.Words + shape.Payload
}

// forward sends the call on, or answers it here. An error ends the connection.
func (k *relayCall) forward() error {
	d, why, version, err := k.parse(k.in)
	switch {
	case err != nil:
		return err
	case version != rpc.Version:
		return k.answer(func(w *xdr.Writer) { rpc.PutRPCMismatch(w, k.head.XID) })
	case why != rpc.AuthOK:
		return k.answer(func(w *xdr.Writer) { rpc.PutAuthError(w, k.head.XID, why) })
	case k.head.Program == rpcbindProgram:
		return k.answer(func(w *xdr.Writer) { k.rpcbind(d, w) })
	}
	k.args = k.in[k.head.Size:]
	x := &k.x
	x.Program, x.Version, x.Procedure, x.Cred = k.head.Program, k.head.Version, k.head.Procedure, k.head.Cred
	x.Args, x.MaxArgs = k.putArgs, len(k.args)+xdr.Pad(len(k.args))
	var to *Conn
	if k.head.Program == mount3wire.Program {
		if to, err = k.conn.toMount(); err != nil {
			// Clients understand that, and NFS works without MOUNT.
			return k.answer(func(w *xdr.Writer) { rpc.PutAccepted(w, k.head.XID, rpc.AcceptProgUnavail) })
		}
		x.MaxResults = nfs.MaxMountReply
		if p := nfs.BindingMount3.Procedures; k.head.Version == mount3wire.Version && k.head.Procedure < uint32(len(p)) {
			x.MaxResults = p[k.head.Procedure].MaxResults
		}
	} else {
		if to, err = k.conn.toServer(); err != nil {
			return err
		}
		k.shape(d)
	}
	to.caller.Start(x)
	return nil
}

// shape tells the transport what the binding knows of a call to the server.
func (k *relayCall) shape(args xdr.Decoder) {
	x := &k.x
	if k.head.Procedure == procNull {
		return
	}
	row := k.row()
	if row == nil {
		x.MaxResults = k.conn.relay.cfg.MaxReply
		return
	}
	x.Binding = row
	switch nfs3wire.Procedure(k.head.Procedure) {
	case nfs3wire.ProcWrite:
		if k.write.Decode(&args); args.Finish() == nil {
			x.Args, x.MaxArgs = k.write.Encode, nfs3wire.Write3ArgsMaxReducedSize
		}
	case nfs3wire.ProcSymlink:
		if k.symlink.Decode(&args); args.Finish() == nil {
			x.Args = k.symlink.Encode
		}
	case nfs3wire.ProcRead:
		var read nfs3wire.Read3Args
		if read.Decode(&args); args.Finish() != nil || read.Count == 0 {
			return
		}
		// A server may give less than it is asked for.
		if read.Count > nfs.MaxTransfer {
			read.Count = nfs.MaxTransfer
			x.Args = read.Encode
		}
		if cap(k.room) < int(read.Count) {
			k.room = make([]byte, read.Count)
		}
		k.sink[0] = k.room[:read.Count]
		x.Sinks, x.Locate = k.sink[:], LocateReadData
	}
}

// putArgs writes the arguments as they came.
func (k *relayCall) putArgs(w *xdr.Writer) { w.FixedOpaque(k.args) }

// answer replies without the server.
func (k *relayCall) answer(put func(w *xdr.Writer)) error {
	w := k.begin(relayAnswer)
	put(w)
	k.finish(w)
	return nil
}

// relayAnswer is the longest reply that is made here, in bytes.
const relayAnswer = 2048

// begin starts the reply, of at most size bytes of words.
func (k *relayCall) begin(size int) *xdr.Writer {
	if cap(k.out) < recordMark+size {
		k.out = make([]byte, recordMark+size)
	}
	k.payload, k.cut = nil, 0
	return xdr.NewWriter(k.out[recordMark:recordMark:cap(k.out)])
}

// finish queues the reply.
func (k *relayCall) finish(w *xdr.Writer) {
	c := k.conn
	k.out = k.out[:recordMark+w.Len()]
	length := w.StreamLen()
	if p := w.Payloads(); len(p) > 0 {
		k.payload, k.cut = p[0].Data, recordMark+p[0].Position
	}
	binary.BigEndian.PutUint32(k.out, lastFragment|uint32(length))
	c.replies <- k // never blocks: there is a place for each slot
	c.pending.Done()
}

// appendTo appends the reply's bytes.
func (k *relayCall) appendTo(bufs net.Buffers) net.Buffers {
	if len(k.payload) == 0 {
		if len(k.out) == 0 {
			return bufs
		}
		return append(bufs, k.out)
	}
	bufs = append(bufs, k.out[:k.cut], k.payload)
	if n := xdr.Pad(len(k.payload)); n > 0 {
		bufs = append(bufs, relayPadding[:n])
	}
	if k.cut < len(k.out) {
		bufs = append(bufs, k.out[k.cut:])
	}
	return bufs
}

var relayPadding [4]byte

// replied makes the client's reply of the server's.
func (k *relayCall) replied() {
	x := &k.x
	if re, ok := errors.AsType[*rpc.ReplyError](x.Err); ok {
		w := k.begin(rpc.ErrorReply)
		putReplyError(w, k.head.XID, re)
		k.finish(w)
		return
	}
	if _, ok := errors.AsType[*rdma.RefusedError](x.Err); ok {
		w := k.begin(rpc.ErrorReply)
		rpc.PutAccepted(w, k.head.XID, rpc.AcceptSystemErr)
		k.finish(w)
		return
	}
	if x.Err != nil {
		// The client has to ask again, and knows that when it is cut off.
		k.conn.fail(x.Err)
		k.finish(k.begin(0))
		return
	}
	if len(x.Sinks) > 0 {
		if k.repliedRead() {
			return
		}
		w := k.begin(rpc.ErrorReply)
		rpc.PutAccepted(w, k.head.XID, rpc.AcceptSystemErr)
		k.finish(w)
		return
	}
	rest := x.Results.Rest()
	w := k.begin(rpc.ReplyHeader + len(rest) + 3)
	rpc.PutAccepted(w, k.head.XID, rpc.Success)
	w.FixedOpaque(rest)
	k.finish(w)
}

// repliedRead makes the reply of READ, whose data stays where it was placed.
func (k *relayCall) repliedRead() bool {
	d := &k.x.Results
	k.read.Decode(d)
	if d.Err() != nil {
		return false
	}
	if data := k.read.ResOK.Data.Data; len(data) > 0 && &data[0] != &k.sink[0][0] {
		if len(data) > len(k.sink[0]) {
			return false
		}
		k.read.ResOK.Data.Data = k.sink[0][:copy(k.sink[0], data)]
	}
	w := k.begin(rpc.ReplyHeader + nfs3wire.Read3ResMaxReducedSize)
	rpc.PutAccepted(w, k.head.XID, rpc.Success)
	k.read.Encode(w)
	k.finish(w)
	return true
}

func putReplyError(w *xdr.Writer, xid uint32, e *rpc.ReplyError) {
	switch {
	case e.Denied && e.Auth != rpc.AuthOK:
		rpc.PutAuthError(w, xid, e.Auth)
	case e.Denied:
		rpc.PutRPCMismatch(w, xid)
	case e.Stat == rpc.AcceptProgMismatch:
		rpc.PutProgMismatch(w, xid, e.Low, e.High)
	default:
		rpc.PutAccepted(w, xid, e.Stat)
	}
}
