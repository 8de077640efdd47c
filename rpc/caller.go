package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// ErrCallLost means that the connection ended before the reply came. The peer may or may not have
// executed the call.
var ErrCallLost = errors.New("rpc: connection lost before the reply came")

// A Caller makes calls on a connection: on a client's connection, or on a server's backchannel.
type Caller interface {
	// Start queues x and returns at once. The transport sends the calls in the order of Start, each
	// when credits and the socket allow it. It calls x.Done at the end of the call.
	Start(x *Exchange)
	// Cancel ends x. Unless x.Done was already called, the transport soon calls it with err in
	// x.Err. The peer can no longer access memory of x when x.Done is called.
	Cancel(x *Exchange, err error)
}

// A Client is a Caller whose user closes the connection. Close returns when every Exchange is
// done.
type Client interface {
	Caller
	Close()
}

// A Dialer connects to another RPC server. Code that calls servers takes a Dialer as a parameter,
// so that it does not import a transport.
type Dialer func(ctx context.Context, network, address string) (Client, error)

// An Exchange is one call that this program makes, and its reply. It may be used again after Done.
type Exchange struct {
	Program, Version, Procedure uint32
	// Cred is the authenticator to send; the zero value is AUTH_NONE.
	Cred AuthBytes
	// Sign, if not nil, writes the credential and the verifier instead of Cred, each of at most
	// MaxAuthBytes. w holds the header up to the procedure. The transport calls Sign once for
	// each transmission, before Args, on the same goroutine.
	Sign func(x *Exchange, w *xdr.Writer)
	// Binding tells a transport with direct data placement which items are eligible, and how large
	// the reply gets. If it is nil, no item is eligible, and MaxResults limits the reply.
	Binding *Procedure
	// Args encodes the arguments. Payload marked eligible may be exposed to the peer instead of
	// copied. The transport calls Args again for a retransmission. If Args is nil, there are no
	// arguments.
	Args func(w *xdr.Writer)
	// MaxArgs is the largest number of bytes that Args writes, without payload.
	MaxArgs int
	// MaxResults is the largest size of the results in bytes, without the items placed in Sinks. 0
	// means that the reply fits without chunks.
	MaxResults int
	// Sinks are the buffers for the eligible results: one for each result, in order.
	Sinks [][]byte
	// Locate, if not nil, finds the first eligible result while the reply arrives on a stream, so
	// that the transport can read a large one directly into the first sink. It returns the position
	// of the result's content in the message (Decoder.Position there) and its length, or 0. The
	// argument is a copy of a Decoder at the results. The message may be cut off after AdmitPrefix
	// bytes.
	Locate func(results xdr.Decoder) (position, length int)
	// Done is called once, when the reply has arrived or will not come. It may decode Results,
	// which are valid only during Done. It must not block.
	Done func(x *Exchange)

	// The transport sets XID, Results and Err before it calls Done. Err is a *ReplyError if the
	// reply's status is not SUCCESS. A result that the peer placed in a sink is read from Results
	// as if it were in the message, and aliases the sink.
	XID     uint32
	Results xdr.Decoder
	Err     error
	// Verf is the verifier of an accepted reply. Like Results, it is valid only during Done.
	Verf AuthBytes

	// Transport is data of the Caller's implementation.
	Transport any
}

// Put writes the whole call with x.XID as its XID. Transports call it.
func (x *Exchange) Put(w *xdr.Writer) {
	putCallFixed(w, x.XID, x.Program, x.Version, x.Procedure)
	if x.Sign != nil {
		x.Sign(x, w)
	} else {
		putAuth(w, &x.Cred)
		putAuth(w, &AuthBytes{})
	}
	if x.Args != nil {
		x.Args(w)
	}
}

// HeaderSize returns the length of the call's header in bytes or, if x.Sign is set, the largest
// possible length. Transports call it.
func (x *Exchange) HeaderSize() int {
	if x.Sign != nil {
		return MaxCallHeader
	}
	n := len(x.Cred.Body)
	return callFixed + 2*authFixed + n + xdr.Pad(n)
}

// Read reads a reply's header from x.Results, which must be at the start of the reply. Transports
// call it.
func (x *Exchange) Read() { _, x.Verf, x.Err = ReadReply(&x.Results) }

// Do makes one call and waits for it. decode, if not nil, reads the results while they are valid.
// If ctx ends first, Do cancels the call and returns the context's cause.
func Do(ctx context.Context, k Caller, x *Exchange, decode func(d *xdr.Decoder) error) error {
	done := make(chan error, 1)
	x.Done = func(x *Exchange) {
		err := x.Err
		if err == nil && decode != nil {
			err = decode(&x.Results)
		}
		done <- err
	}
	k.Start(x)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		k.Cancel(x, context.Cause(ctx))
		return <-done
	}
}

// AuthSysCred returns a caller's AUTH_SYS authenticator (RFC 5531 §14). It fails if machine is
// longer than MaxMachineName, or if there are more than MaxGroups groups: the caller of
// AuthSysCred decides which groups to leave out.
func AuthSysCred(stamp uint32, machine string, uid, gid uint32, groups []uint32) (AuthBytes, error) {
	if len(machine) > MaxMachineName {
		return AuthBytes{}, errors.New("rpc: machine name is too long for AUTH_SYS")
	}
	if len(groups) > MaxGroups {
		return AuthBytes{}, errors.New("rpc: too many groups for AUTH_SYS")
	}
	size := machineAt + len(machine) + xdr.Pad(len(machine)) + 3*4 + 4*len(groups)
	w := xdr.NewWriter(make([]byte, 0, size))
	w.Uint32(stamp)
	w.String(machine)
	w.Uint32(uid)
	w.Uint32(gid)
	w.Uint32(uint32(len(groups)))
	for _, g := range groups {
		w.Uint32(g)
	}
	return AuthBytes{Flavor: AuthSys, Body: w.Bytes()}, nil
}

// PutCall writes the header of a call. The arguments follow.
func PutCall(w *xdr.Writer, h *CallHeader) {
	putCallFixed(w, h.XID, h.Program, h.Version, h.Procedure)
	putAuth(w, &h.Cred)
	putAuth(w, &h.Verf)
}

// putCallFixed writes the part of a call before the authenticators.
func putCallFixed(w *xdr.Writer, xid, program, version, procedure uint32) {
	w.Uint32(xid)
	w.Uint32(uint32(TypeCall))
	w.Uint32(Version)
	w.Uint32(program)
	w.Uint32(version)
	w.Uint32(procedure)
}

// ErrBadReply means that the reply violates the format of RFC 5531.
var ErrBadReply = errors.New("rpc: malformed reply")

// A ReplyError is a reply other than SUCCESS: the server refused the call, or could not execute it
// (RFC 5531 §9).
type ReplyError struct {
	// Denied is true if the reply is MSG_DENIED. Auth is then the reason; AuthOK means that the
	// server does not support the RPC version of the call. If Denied is false, Stat is the reason.
	Denied bool
	Auth   AuthStat
	Stat   AcceptStat
	// If the server does not support the version of RPC or of the program, Low and High are the
	// lowest and the highest version that it supports.
	Low, High uint32
}

func (e *ReplyError) Error() string {
	switch {
	case e.Denied && e.Auth != AuthOK:
		return "rpc: denied: " + e.Auth.String()
	case e.Denied:
		return fmt.Sprintf("rpc: denied: RPC version mismatch (%d to %d served)", e.Low, e.High)
	case e.Stat == AcceptProgMismatch:
		return fmt.Sprintf("rpc: %v (%d to %d served)", e.Stat, e.Low, e.High)
	}
	return "rpc: " + e.Stat.String()
}

// ReadReply reads a reply's header. d must be at the reply's XID. Afterwards it is at the results.
// err is nil for SUCCESS, a *ReplyError for every other status, or wraps ErrBadReply.
func ReadReply(d *xdr.Decoder) (xid uint32, verf AuthBytes, err error) {
	xid = d.Uint32()
	t := MsgType(d.Uint32())
	stat := d.Uint32()
	if d.Err() != nil || t != TypeReply || stat > msgDenied {
		return xid, verf, badReply(d)
	}
	var re ReplyError // The error is a copy of re, so that only an unsuccessful reply allocates memory.
	if stat == msgDenied {
		re.Denied = true
		switch d.Uint32() {
		case rejectMismatch:
			re.Low, re.High = d.Uint32(), d.Uint32()
		case rejectAuth:
			if re.Auth = AuthStat(d.Uint32()); re.Auth == AuthOK {
				d.Fail(xdr.ErrBadValue)
			}
		default:
			d.Fail(xdr.ErrBadValue)
		}
	} else {
		verf.Flavor = Flavor(d.Uint32())
		verf.Body = d.Opaque(MaxAuthBytes)
		re.Stat = AcceptStat(d.Uint32())
		switch {
		case re.Stat == AcceptProgMismatch:
			re.Low, re.High = d.Uint32(), d.Uint32()
		case re.Stat > AcceptSystemErr:
			d.Fail(xdr.ErrBadValue)
		case re.Stat == Success && d.Err() == nil:
			return xid, verf, nil
		}
	}
	if d.Err() != nil {
		return xid, verf, badReply(d)
	}
	refused := re
	return xid, verf, &refused
}

func badReply(d *xdr.Decoder) error {
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, d.Err())
	}
	return ErrBadReply
}
