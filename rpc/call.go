package rpc

import (
	"math"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// AdmitPrefix is how much of a message a transport must have at hand for Admit,
// in bytes, unless the message is shorter: room for the largest header (RFC 5531
// §8.2: two authenticators of 400 bytes) and the arguments' first items.
const AdmitPrefix = 2048

// Arrived is a call of which the first part is here: what Admit and a program's
// Judge may look at. The transport fills in all but Header and Cred.
type Arrived struct {
	Conn *Conn
	Way  Way
	// Message is the RPC message from its XID on, without what travelled
	// beside it. For Admit at least AdmitPrefix bytes of it, for Serve all.
	Message []byte
	// MessageLen is the length of the whole Message. Where it is not known
	// yet (a record of several fragments), it is the least that it can be.
	MessageLen int
	// Placed are the positions and lengths of what travels beside the message,
	// ascending.
	Placed []Placed

	// Header is decoded by Admit; its slices alias Message.
	Header CallHeader
	// Cred is the caller, as the Protection of its flavor verified it.
	Cred Cred
}

// A Call is one call on its way through the server. It has one life, in stages:
// arrived, admitted, memory reserved, arguments brought, protection taken off,
// served, protected, answered. A transport embeds it in its own record of the
// call, which is also the Way, and may reuse it after the way was used.
type Call struct {
	Arrived

	// The transport fills these in between Admit and Serve.

	// Excised are the contents of what Placed announced, in the same order.
	Excised []xdr.Excised
	// Memory is the block reserved for the call by its Plan, or nil, with one
	// reference that the transport holds until the way was used. Results'
	// payload may be put at ResultsAt and beyond: see ResultMemory.
	Memory    *mem.Buffer
	ResultsAt int

	// Serve finds these.

	// Args is the cursor at the arguments, with the excised items in their
	// places.
	Args xdr.Decoder
	// Subject is the Judgement's.
	Subject any
	// Early: only the start of the arguments is here. See Judgement.Early.
	Early bool
	// Try: the procedure may not block; it answers WouldBlock instead.
	Try bool
	// Progress is the program's own: where a Serve goes on that was interrupted.
	// It is nil at first.
	Progress any

	state callState // rpc's own
	// detached counts, over all the calls that this record was, those that
	// their program detached. Nothing sets it back.
	detached atomic.Uint32
}

// Reset is for the transport: it forgets all that the record holds of a call whose
// way was used, so that the record can be used for another one.
func (c *Call) Reset() {
	c.Conn, c.Way = nil, nil
	c.Message, c.MessageLen = nil, 0
	c.Excised, c.Placed = nil, nil
	c.Memory, c.ResultsAt = nil, 0
	c.Header, c.Args, c.Cred = CallHeader{}, xdr.Decoder{}, Cred{}
	c.Subject, c.Early, c.Try, c.Progress = nil, false, false, nil
	c.state = callState{}
}

// Changes says that the call changes something: it may not be executed any number of times.
func (c *Call) Changes() bool { return c.state.judged.Once }

// Mark says that what was decoded, written and done so far stands: a Serve that
// answers WouldBlock or Pending after it goes on from here when it is called
// again, with c.Args and w as they are now. Before the first Mark it starts anew.
func (c *Call) Mark(w *xdr.Writer) {
	c.state.mark = mark{words: w.Len(), results: c.ResultsAt, args: c.Args}
}

// mark is a place that a call can go back to.
type mark struct {
	words   int // written
	results int // of the memory
	args    xdr.Decoder
}

// rewind takes back what came after the last mark.
func (c *Call) rewind() {
	m := &c.state.mark
	c.state.w.Truncate(m.words)
	c.ResultsAt = m.results
	c.Args = m.args
}

// Detach makes the call outlive the Serve that it came by: Way.Detach, and
// Header, Cred and Args point at the call's own copy of the message, where they
// stood. What was decoded before aliases memory that is not the call's any more.
// A program that detached a call is the one to end it, by Complete or Resume, even
// where its Serve panics.
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

// Complete ends a call whose Serve answered Outcome.Pending: results encodes them
// as Program.Serve would have, on the calling goroutine, and says how the
// call ended (not Block, and not Pending again). It may be called before
// that Serve returns.
func (c *Call) Complete(results func(w *xdr.Writer) Outcome) {
	c.rewind()
	c.state.server.complete(c, results)
}

// Resume has the Executor call Serve again for a call whose Serve answered
// Outcome.Pending: it goes on from the last Mark, without Try. lane is with what
// it may stall. It may be called before that Serve returns, if the procedure does
// not touch the call after it let others know of it.
func (c *Call) Resume(lane any) {
	c.rewind()
	c.Try = false
	c.state.server.exec.submit(c, lane)
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

// ResultRoom is how long the next eligible result may be so that the reply can be
// carried back, in bytes: what its own Write chunk holds, or what is left for all
// that goes without one (RFC 8267 §6). rest is how many bytes of words are still to
// be written, the result's count included.
func (c *Call) ResultRoom(w *xdr.Writer, rest int) int {
	next, left := c.unplaced(w)
	if n, ok := c.place(next); ok {
		return n
	}
	// Rounded down to whole words: padding takes the rest.
	return max(left-rest, 0) &^ 3
}

// WordsRoom is how many bytes of words may still be written so that the reply can be
// carried back.
func (c *Call) WordsRoom(w *xdr.Writer) int {
	_, left := c.unplaced(w)
	return max(min(left, w.Available()-c.state.overhead.Behind), 0)
}

// unplaced says which eligible result is the next, counted from 0, and how much can
// still be carried back without a place of its own.
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

// place is what the caller offers for eligible result i, counted from 0.
func (c *Call) place(i int) (n int, ok bool) {
	if !c.state.plan.Placement {
		return 0, false
	}
	return c.Way.Place(i)
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
	// Early: nothing is to be reserved or brought for the call. Serve it now; the
	// transport skips what is still to come of it.
	Early bool
	// Group, where not nil, bounds the memory reserved for the call, beside the
	// connection's share.
	Group *mem.Group
}
