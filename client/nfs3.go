package client

import (
	"context"
	"fmt"
	"slices"
	"sync"

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
}

// encoder holds the arguments of a call.
type encoder interface{ Encode(w *xdr.Writer) }

// decoder receives the results of a call.
type decoder interface{ Decode(d *xdr.Decoder) }

// A request is the state of one call. Later calls use it again: see requests.
type request struct {
	x      rpc.Exchange
	args   encoder
	decode func(d *xdr.Decoder) error
	done   chan error
	sink   [1][]byte
}

var requests = sync.Pool{New: func() any {
	r := &request{done: make(chan error, 1)}
	r.x.Args = func(w *xdr.Writer) { r.args.Encode(w) }
	r.x.Done = func(x *rpc.Exchange) {
		err := x.Err
		if err == nil {
			err = r.decode(&x.Results)
		}
		r.done <- err
	}
	return r
}}

// call makes a call. maxArgs is an upper bound for its arguments without payload, in bytes. sink,
// unless nil, is the memory for the eligible result, such as the data of a READ.
func (n NFS3) call(ctx context.Context, p nfs3wire.Procedure, args encoder, maxArgs int, sink []byte, decode func(d *xdr.Decoder) error) error {
	r := requests.Get().(*request)
	r.args, r.decode = args, decode
	x := &r.x
	x.Program, x.Version, x.Procedure = nfs3wire.Program, nfs3wire.Version, uint32(p)
	x.Cred = n.Cred
	x.Binding = &nfs.Binding3.Procedures[p]
	x.MaxArgs = maxArgs
	x.Sinks, x.Locate = nil, nil
	if sink != nil {
		r.sink[0] = sink
		x.Sinks = r.sink[:]
		if p == nfs3wire.ProcRead {
			x.Locate = LocateReadData
		}
	}
	n.Caller.Start(x)
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		n.Caller.Cancel(x, context.Cause(ctx))
		err = <-r.done
	}
	r.args, r.decode, r.sink[0], x.Sinks = nil, nil, nil, nil
	requests.Put(r)
	return err
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

// do makes a call, decodes its results into res, and returns the call's error. The decoded results
// must not refer to the memory of the reply, which is not valid after do. status points to the
// status within res.
func (n NFS3) do(ctx context.Context, p nfs3wire.Procedure, args encoder, maxArgs int, res decoder, status *nfs3wire.NFSStat3) error {
	return n.call(ctx, p, args, maxArgs, nil, func(d *xdr.Decoder) error {
		res.Decode(d)
		return outcome(d, p, *status)
	})
}

// outcome returns the error of a call whose results were decoded from d.
func outcome(d *xdr.Decoder, p nfs3wire.Procedure, status nfs3wire.NFSStat3) error {
	switch {
	case d.Err() != nil:
		return fmt.Errorf("%w: %v: %w", rpc.ErrBadReply, p, d.Err())
	case status != nfs3wire.NFS3OK:
		return &StatusError{p, status}
	}
	return nil
}

// wireHandle returns h as a wire type.
func wireHandle(h Handle) nfs3wire.FileHandle3 { return nfs3wire.FileHandle3{Data: h} }

// given returns the handle and the attributes in a reply. Each is nil if the reply has none.
func given(h *nfs3wire.PostOpFH3, a *nfs3wire.PostOpAttr) (Handle, *nfs3wire.Fattr3) {
	var handle Handle
	if h != nil && h.HandleFollows {
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
