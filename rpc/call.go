package rpc

import (
	"math"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// AdmitPrefix is the number of bytes of a message that a transport must have received before it
// calls Admit, unless the message is shorter. It has room for the largest header (RFC 5531 §8.2:
// two authenticators of 400 bytes) and the first arguments.
const AdmitPrefix = 2048

// Arrived is a call whose start has arrived: the data that Admit and a Service's Judge may use.
// The transport sets all fields except Header and Cred.
type Arrived struct {
	Conn *Conn
	Way  Way
	// Message is the RPC message from its XID on, without the items that travelled beside it. For
	// Admit it has at least AdmitPrefix bytes, for Serve all.
	Message []byte
	// MessageLen is the length of the whole Message. If the transport does not know it yet (a
	// record of several fragments), it is the least possible length.
	MessageLen int
	// Placed are the positions and lengths of the items that travel beside the message, in
	// ascending order.
	Placed []Placed

	// Header is decoded by Admit; its slices alias Message.
	Header CallHeader
	// Cred is the caller, as verified by the Protection of its flavor.
	Cred Cred
}

// A Call is one call on its way through the server. It passes these stages once: arrived,
// admitted, memory reserved, arguments brought, protection removed, served, results protected,
// answered. A transport embeds it in its own record of the call, which is also the Way, and may
// reuse it after the way was used.
type Call struct {
	Arrived

	// The transport fills these in between Admit and Serve.

	// Excised are the contents of the items in Placed, in the same order.
	Excised []xdr.Excised
	// Memory is the block that the transport reserved for the call by its Plan, or nil. The
	// transport holds one reference to it until the way is used. The payload of the results may
	// be put at ResultsAt and after it: see ResultMemory.
	Memory    *mem.Buffer
	ResultsAt int

	// Serve gets these fields.

	// Args reads the arguments, with the excised items in their places.
	Args xdr.Decoder
	// Subject is Judgement.Subject.
	Subject any
	// Early: only the start of the arguments has arrived. See Judgement.Early.
	Early bool
	// Try: the procedure may not block; it answers WouldBlock instead.
	Try bool
	// Progress belongs to the program, which stores here where an interrupted Serve continues. It
	// is nil at first.
	Progress any

	state callState // the rpc package's own
	// detached counts the calls that their program detached, over all calls that used this
	// record. It is never reset.
	detached atomic.Uint32
}

// Reset is for the transport: it clears the record of a call whose way was used, so that another
// call can use the record.
func (c *Call) Reset() {
	c.Conn, c.Way = nil, nil
	c.Message, c.MessageLen = nil, 0
	c.Excised, c.Placed = nil, nil
	c.Memory, c.ResultsAt = nil, 0
	c.Header, c.Args, c.Cred = CallHeader{}, xdr.Decoder{}, Cred{}
	c.Subject, c.Early, c.Try, c.Progress = nil, false, false, nil
	c.state = callState{}
}

// Changes reports that the call changes something, so that it must not be executed twice.
func (c *Call) Changes() bool { return c.state.judged.Once }

// Mark keeps everything decoded, written and done so far. If Serve later answers WouldBlock or
// Pending, its next run continues here, with c.Args and w as they are now. Before the first Mark
// it starts anew.
func (c *Call) Mark(w *xdr.Writer) {
	c.state.mark = mark{words: w.Len(), results: c.ResultsAt, args: c.Args}
}

// A mark is a state of a call to which rewind returns.
type mark struct {
	words   int // bytes written
	results int // bytes of Memory used
	args    xdr.Decoder
}

// rewind undoes everything after the last mark.
func (c *Call) rewind() {
	m := &c.state.mark
	c.state.w.Truncate(m.words)
	c.ResultsAt = m.results
	c.Args = m.args
}

// Detach makes the call outlive its Serve. It calls Way.Detach, and points Header, Cred and Args
// at the call's own copy of the message, at the same positions. Slices decoded earlier still
// alias memory that is no longer the call's. The program that detached a call has to end it, by
// Complete or Resume, even if its Serve panics.
func (c *Call) Detach() {
	c.detached.Add(1)
	c.detach()
}

func (c *Call) detach() {
	c.Way.Detach()
	c.moved()
	c.Args.Rebase(c.body())
	c.state.mark.args.Rebase(c.body())
}

// Complete ends a call whose Serve answered Outcome.Pending. results runs on the calling
// goroutine: it encodes the results as Service.Serve would, and returns the outcome, which may be
// neither Block nor Pending. Complete may be called before that Serve returns.
func (c *Call) Complete(results func(w *xdr.Writer) Outcome) {
	c.rewind()
	c.state.server.complete(c, results)
}

// Resume has the executor call Serve again for a call whose Serve answered Outcome.Pending. Serve
// continues at the last Mark, without Try. lane names the resource that the call may wait for.
// Resume may be called before that Serve returns, if the procedure does not touch the call after
// it has published it.
func (c *Call) Resume(lane any) {
	c.rewind()
	c.Try = false
	c.state.server.exec.submit(c, lane)
}

// Placed is the position and the length of an item that travels beside the message.
type Placed struct {
	Position uint32 // in the RPC message with all items in place
	Length   uint32
}

// ResultMemory returns n bytes of the call's reserved memory for a result's payload, until the way
// is used. It returns nil if the Plan did not reserve that much.
func (c *Call) ResultMemory(n int) []byte {
	if c.Memory == nil || n > len(c.Memory.Bytes())-c.ResultsAt {
		return nil
	}
	b := c.Memory.Bytes()[c.ResultsAt : c.ResultsAt+n : c.ResultsAt+n]
	c.ResultsAt += n
	return b
}

// Eligible returns data as a result that the transport may place directly. data is part of what
// ResultMemory returned; the result holds a reference to it.
func (c *Call) Eligible(data []byte) xdr.Eligible {
	if len(data) == 0 {
		return xdr.Eligible{}
	}
	c.Memory.Retain()
	return xdr.Eligible{Data: data, Ref: c.Memory}
}

// ResultRoom returns the largest size of the next eligible result with which the reply can be
// carried back, in bytes: the length of its own Write chunk or, without one, the room left in the
// message (RFC 8267 §6). rest is the number of bytes of words that the program still has to
// write, the result's count included.
func (c *Call) ResultRoom(w *xdr.Writer, rest int) int {
	next, left := c.unplaced(w)
	if n, ok := c.place(next); ok {
		return n
	}
	// A multiple of four: the padding of the result fits as well.
	return max(left-rest, 0) &^ 3
}

// WordsRoom returns how many bytes of words the program may still write so that the reply can be
// carried back.
func (c *Call) WordsRoom(w *xdr.Writer) int {
	_, left := c.unplaced(w)
	return max(min(left, w.Available()-c.state.overhead.Behind), 0)
}

// unplaced returns the number of the next eligible result, counted from 0, and how many bytes the
// message can still carry.
func (c *Call) unplaced(w *xdr.Writer) (next, left int) {
	without := w.Len()
	for _, p := range w.Payloads() {
		placed := false
		if p.Eligible {
			_, placed = c.place(next)
			next++
		}
		if !placed {
			without += len(p.Data) + xdr.Pad(len(p.Data))
		}
	}
	room := c.Way.Room()
	if room.Continued {
		return next, math.MaxInt32
	}
	return next, room.Largest() - without - c.state.overhead.Behind
}

// place returns the length of the caller's own place for eligible result i, counted from 0.
func (c *Call) place(i int) (n int, ok bool) {
	if !c.state.plan.Placement {
		return 0, false
	}
	return c.Way.Place(i)
}

// A Plan lists the memory that the transport has to reserve for an admitted call.
type Plan struct {
	// Args is the largest possible size of the arguments, in bytes. It matters if the message's
	// length is not known yet.
	Args int
	// Reply is the largest RPC reply message without payload, in bytes: the capacity to ask of
	// Way.Writer.
	Reply int
	// Results is the payload memory that the results need, in bytes.
	Results int
	// Placement: results marked eligible may be placed directly, and
	// arguments may have been (not under RPCSEC_GSS integrity or privacy).
	Placement bool
	// Early: the transport reserves and brings nothing. It calls Serve now, and skips the rest of
	// the call.
	Early bool
	// Group, if not nil, also bounds the memory reserved for the call, in addition to the
	// connection's share.
	Group *mem.Group
}
