package rpc

import (
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// AdmitPrefix is how much of a message a transport must have at hand for Admit,
// in bytes, unless the message is shorter: room for the largest header (RFC 5531
// §8.2: two authenticators of 400 bytes) and the arguments' first items.
const AdmitPrefix = 2048

// A Call is one call on its way through the server. A transport embeds it in its
// own record of the call, which is also the Way, and may reuse it after the way
// was used. The upper part is the transport's to fill in before Admit.
type Call struct {
	Conn *Conn
	Way  Way
	// Message is the RPC message from its XID on, without what travelled
	// beside it. For Admit at least AdmitPrefix bytes of it, for Serve all.
	Message []byte
	// MessageLen is the length of the whole Message. Where it is not known
	// yet (a record of several fragments), it is the least that it can be.
	MessageLen int
	// Excised are the items that travel beside Message, by position in
	// the RPC message, ascending. They are set for Serve.
	Excised []xdr.Excised
	// Placed are the positions and lengths of what Excised will be, in the same
	// order. They are set for Admit, before anything was brought.
	Placed []Placed
	// Memory is the block reserved for the call by its Plan, or nil, with one
	// reference that the transport holds until the way was used. Results'
	// payload may be put at ResultsAt and beyond: see ResultMemory.
	Memory    *mem.Buffer
	ResultsAt int

	// Header is decoded by Admit; its slices alias Message.
	Header CallHeader
	// Args is the cursor at the arguments, with the excised items in their
	// places.
	Args xdr.Decoder
	// Cred is who calls, verified by Serve.
	Cred Cred
	// Try: the procedure may not block; it answers WouldBlock having done
	// nothing instead, and is called again without Try.
	Try bool

	state callState // rpc's own
}

// Detach makes the call outlive the Serve that it came by: Way.Detach, and
// Header, Cred and Args point at the call's own copy of the message. Args starts
// again; what was decoded before aliases memory that is not the call's any more.
func (c *Call) Detach() {
	c.Way.Detach()
	c.moved()
}

// Complete ends a call whose Serve answered Outcome.Pending: results encodes them
// as Program.Serve would have, on the calling goroutine, and says how the
// call ended (not Block, and not Pending again). It may be called before
// that Serve returns.
func (c *Call) Complete(results func(w *xdr.Writer) Outcome) {
	c.state.server.complete(c, results)
}

// Placed says where an item that travels beside the message belongs and how
// long it is.
type Placed struct {
	Position uint32 // in the unreduced RPC message
	Length   uint32
}

// ResultMemory hands out n bytes of the call's reserved memory for a result's
// payload, with the reference that gives them back: to be passed on to
// xdr.Writer.Payload. nil where the Plan did not ask for that much.
func (c *Call) ResultMemory(n int) ([]byte, xdr.Releaser) {
	if c.Memory == nil || n > len(c.Memory.Bytes())-c.ResultsAt {
		return nil, nil
	}
	b := c.Memory.Bytes()[c.ResultsAt : c.ResultsAt+n : c.ResultsAt+n]
	c.ResultsAt += n
	c.Memory.Retain()
	return b, c.Memory
}

// A Plan is what an admitted call will need.
type Plan struct {
	// Args is the largest that the arguments can be, in bytes, where the
	// message's length is not known yet.
	Args int
	// Reply is the largest RPC reply message without payload, in bytes:
	// the capacity that the Way's Writer is asked for.
	Reply int
	// Results is the payload memory that the results need, in bytes.
	Results int
	// Placement: results marked eligible may be placed directly, and
	// arguments may have been (not under RPCSEC_GSS integrity or privacy).
	Placement bool
	// Group, where not nil, bounds the memory reserved for the call, beside the
	// connection's share.
	Group *mem.Group
}
