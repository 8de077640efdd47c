package rpc

import (
	"context"
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// ErrCallLost: the connection ended before the reply came. The peer may or may not have executed
// the call.
var ErrCallLost = errors.New("rpc: connection lost before the reply came")

// A Caller makes calls on a connection: a client's, or a server's backchannel.
type Caller interface {
	// Start queues x and returns at once. The transport sends x when credits and the socket allow
	// it, in the order of Start. It calls x.Done at the end of the call.
	Start(x *Exchange)
	// Cancel gives up on x. Done follows soon with this error, unless Done was already called. By
	// then the peer cannot access memory of x any more.
	Cancel(x *Exchange, err error)
}

// A Client is a Caller whose user closes the connection. Close returns when every Exchange is
// done.
type Client interface {
	Caller
	Close()
}

// A Dialer connects to another RPC server. Code that calls servers gets one, so that it need not
// know transports.
type Dialer func(ctx context.Context, network, address string) (Client, error)

// An Exchange is one call that this side makes, and its reply. It may be used
// again after Done.
type Exchange struct {
	Program, Version, Procedure uint32
	// Cred is the authenticator to send; the zero value is AUTH_NONE.
	Cred AuthBytes
	// Sign, if not nil, writes the credential and the verifier instead of Cred, each of at most
	// MaxAuthBytes. w holds the header up to the procedure. The transport calls Sign once for
	// each transmission, before Args, on the same goroutine.
	Sign func(x *Exchange, w *xdr.Writer)
	// Binding tells a transport with direct data placement which items are eligible, and how
	// large the reply gets. If it is nil, no item is eligible, and MaxResults bounds the reply.
	Binding *Procedure
	// Args encodes the arguments. Payload marked eligible may be exposed to the peer instead of
	// copied. The transport calls it again for a retransmission. If Args is nil, there are no
	// arguments.
	Args func(w *xdr.Writer)
	// MaxArgs bounds the words that Args writes, without payload.
	MaxArgs int
	// MaxResults bounds the results without the items placed in Sinks. 0 means that the reply
	// fits without chunks.
	MaxResults int
	// Sinks are buffers for the eligible results, one for each, in order.
	Sinks [][]byte
	// Locate, if not nil, finds the first eligible result while the reply arrives on a stream, so
	// that the transport can read a large one directly into the first sink. It returns the
	// position of the result's content in the message (Decoder.Position there) and its length, or
	// 0. results is a copy of a cursor at the results, and may be cut off after AdmitPrefix
	// bytes.
	Locate func(results xdr.Decoder) (position, length int)
	// Done is called once, when the reply has arrived or will not come. It may decode Results,
	// which are valid only during Done. It must not block.
	Done func(x *Exchange)

	// XID, Results and Err are set before Done. Err is a *ReplyError for an RPC-level refusal. A
	// result placed in a Sink is read from Results as if it were in the message, and aliases the
	// sink.
	XID     uint32
	Results xdr.Decoder
	Err     error
	// Verf is the verifier of an accepted reply, valid like Results.
	Verf AuthBytes

	// Transport belongs to the implementation of Caller.
	Transport any
}

// Put is for transports: it writes the whole call, under x.XID.
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

// HeaderSize is for transports: it returns the length of the call's header in bytes or, if x.Sign
// is set, the largest possible length.
func (x *Exchange) HeaderSize() int {
	if x.Sign != nil {
		return MaxCallHeader
	}
	n := len(x.Cred.Body)
	return callFixed + 2*authFixed + n + xdr.Pad(n)
}

// Read is for transports: it reads a reply's header. x.Results is positioned at its start.
func (x *Exchange) Read() { _, x.Verf, x.Err = ReadReply(&x.Results) }

// Do makes one call and waits for it. decode, if not nil, reads the results while they are valid.
// The wait ends with the context.
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
