package relay

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A forward is one call that the relay sends to the server, and whose reply it returns to the
// client.
type forward struct {
	call    *rpc.Call
	session *session
	changes bool // whether the call changes something (rpc.Call.Changes)
	x       rpc.Exchange

	// args are the arguments as received. item is the argument that the transport may transfer by
	// direct data placement, such as the data of a WRITE; it begins at args[at]. It is nil if
	// there is none.
	args, item []byte
	at         int

	// sink is the memory for the data of a READ; it belongs to the call. It is nil for other
	// calls.
	sink []byte
}

// newForward returns the forward of a call. row describes the call's procedure. It returns nil if
// there is no memory for the call's results.
func newForward(c *rpc.Call, row *rpc.Procedure) *forward {
	f := &forward{call: c, args: c.Args.Rest()}
	h := &c.Header
	f.x = rpc.Exchange{
		Program: h.Program, Version: h.Version, Procedure: h.Procedure, Cred: h.Cred,
		Args: f.encodeArgs, MaxArgs: len(f.args) + xdr.Pad(len(f.args)),
		Done: func(*rpc.Exchange) { f.complete(f.encodeResults) },
	}
	if h.Program != nfs3wire.Program || h.Version != nfs3wire.Version {
		f.x.MaxResults = row.MaxResults
		return f
	}
	f.x.Binding = row
	switch nfs3wire.Procedure(h.Procedure) {
	case nfs3wire.ProcWrite, nfs3wire.ProcSymlink:
		f.findItem(row)
	case nfs3wire.ProcRead:
		if !f.makeSink() {
			return nil
		}
	}
	return f
}

// findItem looks for the first argument that the transport may place directly, such as the data of
// a WRITE: the procedure's binding marks it by a call of rpc.Shape.Item. If this argument is the
// last of the call and not empty, findItem stores it in f.item. Otherwise f.item stays nil.
func (f *forward) findItem(row *rpc.Procedure) {
	shape, _ := row.Shape(f.call.Args, nil)
	at := shape.Prefix
	if at < 4 || at > len(f.args) {
		return
	}
	n := int(binary.BigEndian.Uint32(f.args[at-4:]))
	if n > 0 && at+n+xdr.Pad(n) == len(f.args) {
		f.at, f.item = at, f.args[at:at+n]
		f.x.MaxArgs = at
	}
}

// makeSink gets memory for the data of a READ, so that the transport puts the data there. It
// returns false if there is no memory.
func (f *forward) makeSink() bool {
	args := f.call.Args
	read := new(nfs3wire.Read3Args)
	if read.Decode(&args); args.Finish() != nil || read.Count == 0 {
		return true // the server will refuse the call, or returns no data
	}
	// The relay has memory for at most MaxTransfer bytes a call. It may lower the count,
	// because a server may return less than a client asks for.
	count := min(read.Count, nfs.MaxTransfer)
	if f.sink = f.call.ResultMemory(int(count)); f.sink == nil {
		return false
	}
	if count < read.Count {
		read.Count = count
		f.x.Args = read.Encode
	}
	f.x.Sinks, f.x.Locate = [][]byte{f.sink}, client.LocateReadData
	return true
}

// start sends the call to the server, over c, if the server takes a call of this length. If that is
// not known, it asks the server first.
func (f *forward) start(c *client.Conn) {
	if len(f.args) > smallCall && !f.session.asked.Load() {
		if known, _ := f.session.relay.sizes.judge(f); !known {
			f.session.relay.work.Go(func() { f.ask(c) })
			return
		}
	}
	f.send(c)
}

// send sends the call to the server. A call that the server does not take ends the client's
// connection, as it would end at the server.
func (f *forward) send(c *client.Conn) {
	if len(f.args) > smallCall {
		if _, err := f.session.relay.sizes.judge(f); err != nil {
			f.end(err)
			return
		}
	}
	if protected(f.x.Program) {
		c.Caller().Start(&f.x)
	} else {
		c.Bare().Start(&f.x)
	}
}

// encodeArgs writes the arguments as received.
func (f *forward) encodeArgs(w *xdr.Writer) {
	if f.item == nil {
		w.FixedOpaque(f.args)
		return
	}
	w.FixedOpaque(f.args[:f.at-4])
	w.Payload(f.item, true, nil)
}

// undialled ends a call because the connection to the service could not be made. Calls of MOUNT get
// PROG_UNAVAIL, because clients can do without MOUNT. For other calls, the relay ends the client's
// connection; the client then connects again and repeats the call.
func (f *forward) undialled(err error) {
	f.complete(func(*xdr.Writer) rpc.Outcome {
		if f.x.Program == mount3wire.Program {
			return rpc.Outcome{Stat: rpc.AcceptProgUnavail}
		}
		f.session.fail(err)
		return rpc.DropAndEnd
	})
}

// end ends the call and, because of err, its client's connection.
func (f *forward) end(err error) {
	f.session.fail(err)
	f.complete(func(*xdr.Writer) rpc.Outcome { return rpc.DropAndEnd })
}

// complete ends the call with what encode writes.
func (f *forward) complete(encode func(w *xdr.Writer) rpc.Outcome) {
	s, changes := f.session, f.changes
	f.call.Complete(encode) // from here on, another call may use f.call
	if changes {
		s.ended()
	}
}

// encodeResults makes the client's reply from the server's.
func (f *forward) encodeResults(w *xdr.Writer) rpc.Outcome {
	x := &f.x
	if x.Err != nil {
		return f.failed(x.Err)
	}
	if f.sink != nil {
		return f.encodeRead(w)
	}
	f.learn()
	if f.call.Header.Program == mount3wire.Program && f.session.relay.cfg.Target.Security != nil && f.encodeMount(w) {
		return rpc.Done
	}
	w.FixedOpaque(x.Results.Rest())
	return rpc.Done
}

// encodeMount writes the results of a successful MNT. It replaces the server's flavors by
// AUTH_SYS, the only flavor that clients of this relay can use. It returns false for other
// results.
func (f *forward) encodeMount(w *xdr.Writer) bool {
	h := &f.call.Header
	if h.Version != mount3wire.Version || mount3wire.Procedure(h.Procedure) != mount3wire.ProcMnt {
		return false
	}
	var res mount3wire.MountRes3
	d := f.x.Results
	if res.Decode(&d); d.Err() != nil || res.Status != mount3wire.OK {
		return false
	}
	w.Int32(int32(mount3wire.OK))
	w.Opaque(res.ResOK.FileHandle)
	w.Uint32(1)
	w.Uint32(uint32(rpc.AuthSys))
	return true
}

// encodeRead writes the results of READ, without copying the data.
func (f *forward) encodeRead(w *xdr.Writer) rpc.Outcome {
	var res nfs3wire.Read3Res
	res.Decode(&f.x.Results)
	if f.x.Results.Err() != nil {
		return rpc.SystemErr
	}
	if res.Status == nfs3wire.NFS3OK {
		n, _, err := client.TakeReadData(&res.ResOK, f.sink)
		if err != nil {
			return rpc.SystemErr
		}
		res.ResOK.Data = f.call.Eligible(f.sink[:n])
	}
	res.Encode(w)
	return rpc.Done
}

// failed returns the outcome of a call that the server did not execute or did not answer.
func (f *forward) failed(err error) rpc.Outcome {
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok {
		switch {
		case re.Denied && (re.Auth == rpc.GSSCredProblem || re.Auth == rpc.GSSCtxProblem):
			// The server refused the relay's own context, and the relay could not make another.
			f.session.fail(err)
			return rpc.DropAndEnd
		case re.Denied && re.Auth != rpc.AuthOK:
			return rpc.Denied(re.Auth)
		case re.Denied: // the server refuses RPC version 2, which no server of today does
			return rpc.SystemErr
		}
		return rpc.Outcome{Stat: re.Stat, Low: re.Low, High: re.High}
	}
	if _, ok := errors.AsType[*rdma.RefusedError](err); ok {
		return rpc.SystemErr
	}
	// The server may or may not have executed the call. The relay ends the client's connection, so
	// that the client connects again and repeats the call.
	f.session.fail(err)
	return rpc.DropAndEnd
}
