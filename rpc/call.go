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

// Arrived is the part of a call that Admit and a Service's Judge may use. At least the start of the
// call has arrived. The transport sets all fields except Header and Cred.
type Arrived struct {
	Conn *Conn
	Way  Way
	// Message is the RPC message from its XID on, without the items that the peer sent outside it
	// (Read chunks). During Admit it may be cut off after AdmitPrefix bytes. During Serve it is
	// complete, unless Early is set.
	Message []byte
	// MessageLen is the length of the whole Message. If the transport does not know it yet (a
	// record of several fragments), it is the least possible length.
	MessageLen int
	// Placed has the position and the length of each item that travels outside the message (in a
	// Read chunk), in ascending order of position.
	Placed []Placed

	// Header is decoded by Admit; its slices alias Message.
	Header CallHeader
	// Cred is the caller, as verified by the Protection of its flavor.
	Cred Cred
}

// A Call is one call on its way through the server. It passes these stages once: start received,
// admitted, memory reserved, rest received, protection removed, served, results protected,
// answered. A transport embeds it in its own record of the call, which is also the Way. The
// transport may reuse the record after the end of the call, which is a call of the Way's Send,
// Refuse, Drop or DropAndClose.
type Call struct {
	Arrived

	// The transport sets the following fields after Admit and before Serve.

	// Excised are the contents of the items in Placed, in the same order.
	Excised []xdr.Excised
	// Memory is the block that the transport reserved for the call by its Plan, or nil. The
	// transport holds one reference to it until the end of the call. ResultsAt is the offset of its
	// first byte that no result uses yet: see ResultMemory.
	Memory    *mem.Buffer
	ResultsAt int

	// The rpc package sets the following fields for the program's Serve.

	// Args reads the arguments. It returns the items in Excised as if they were in the message.
	Args xdr.Decoder
	// Subject is Judgement.Subject.
	Subject any
	// Early is true if only the start of the arguments has arrived. See Judgement.Early.
	Early bool
	// Try is true if the procedure must not block. It then returns WouldBlock where it would block.
	Try bool
	// Progress belongs to the program, which stores in it how far an interrupted Serve has come. It
	// is nil at first.
	Progress any

	state callState // used by the rpc package alone
	// detached counts the calls of Detach, over all RPC calls that used this record. It is never
	// reset.
	detached atomic.Uint32
}

// Reset clears the record of a finished call, so that another call can use it. The transport calls
// it after the end of the call.
func (c *Call) Reset() {
	c.Conn, c.Way = nil, nil
	c.Message, c.MessageLen = nil, 0
	c.Excised, c.Placed = nil, nil
	c.Memory, c.ResultsAt = nil, 0
	c.Header, c.Args, c.Cred = CallHeader{}, xdr.Decoder{}, Cred{}
	c.Subject, c.Early, c.Try, c.Progress = nil, false, false, nil
	c.state = callState{}
}

// Changes reports whether the call changes something, so that it must not be executed twice.
func (c *Call) Changes() bool { return c.state.judged.Once }

// Mark records the present state of c.Args, w and c.ResultsAt. If Serve later returns WouldBlock or
// Pending, the server restores that state before it calls Serve again, and Serve continues from it.
// Without a Mark, the next Serve starts from the beginning.
func (c *Call) Mark(w *xdr.Writer) {
	c.state.mark = mark{words: w.Len(), results: c.ResultsAt, args: c.Args}
}

// A mark is the state of a call that rewind restores.
type mark struct {
	words   int // bytes written
	results int // bytes of Memory used
	args    xdr.Decoder
}

// rewind restores the state of the last mark.
func (c *Call) rewind() {
	m := &c.state.mark
	c.state.w.Truncate(m.words)
	c.ResultsAt = m.results
	c.Args = m.args
}

// Detach lets the program use the call after Serve has returned. It calls Way.Detach, and points
// Header, Cred and Args at the call's own copy of the message, at the same positions. The program
// must not use slices that it decoded earlier, because their memory no longer belongs to the call.
// It has to call Complete or Resume later, even if its Serve panics.
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

// Complete ends a call whose Serve returns Outcome.Pending. results runs on the calling goroutine:
// it encodes the results as Service.Serve would, and returns the outcome, which may be neither
// Block nor Pending. Complete may be called before Serve has returned.
func (c *Call) Complete(results func(w *xdr.Writer) Outcome) {
	c.rewind()
	c.state.server.complete(c, results)
}

// Resume makes the executor call Serve again for a call whose Serve returns Outcome.Pending. The
// second Serve continues at the last Mark, without Try. lane names the resource that the call may
// wait for. Another goroutine may call Resume before the first Serve has returned, if the first
// Serve does not use the call after it has given the call to that goroutine.
func (c *Call) Resume(lane any) {
	c.rewind()
	c.Try = false
	c.state.server.exec.submit(c, lane)
}

// Placed is the position and the length of an item that travels outside the message, in a Read
// chunk.
type Placed struct {
	Position uint32 // offset in bytes, in the RPC message with all items inserted
	Length   uint32
}

// ResultMemory returns n bytes of the call's reserved memory for a result's payload. They are valid
// until the end of the call. ResultMemory returns nil if fewer than n bytes are left of the memory
// that the Plan reserved.
func (c *Call) ResultMemory(n int) []byte {
	if c.Memory == nil || n > len(c.Memory.Bytes())-c.ResultsAt {
		return nil
	}
	b := c.Memory.Bytes()[c.ResultsAt : c.ResultsAt+n : c.ResultsAt+n]
	c.ResultsAt += n
	return b
}

// Eligible returns data as a result that the transport may place directly. data must be memory that
// ResultMemory returned. The result holds a reference to it.
func (c *Call) Eligible(data []byte) xdr.Eligible {
	if len(data) == 0 {
		return xdr.Eligible{}
	}
	c.Memory.Retain()
	return xdr.Eligible{Data: data, Ref: c.Memory}
}

// ResultRoom returns the largest size, in bytes, that the next eligible result may have: the length
// of its own Write chunk or, without one, the space left in the reply message (RFC 8267 §6). rest
// is the number of bytes that the program still has to write into the message apart from the
// result's content, the result's count included.
func (c *Call) ResultRoom(w *xdr.Writer, rest int) int {
	next, left := c.unplaced(w)
	if n, ok := c.place(next); ok {
		return n
	}
	// Round down to a multiple of four, so that the padding of the result fits as well.
	return max(left-rest, 0) &^ 3
}

// WordsRoom returns how many bytes, apart from payload, the program may still write so that the
// reply fits into the space that the caller offers.
func (c *Call) WordsRoom(w *xdr.Writer) int {
	_, left := c.unplaced(w)
	return max(min(left, w.Available()-c.state.overhead.Behind), 0)
}

// unplaced returns the index of the next eligible result, counted from 0, and how many bytes the
// reply message can still carry.
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

// place returns the length, in bytes, of the Write chunk that the caller offers for eligible result
// i, counted from 0. ok is false if there is none.
func (c *Call) place(i int) (n int, ok bool) {
	if !c.state.plan.Placement {
		return 0, false
	}
	return c.Way.Place(i)
}

// A Plan lists the memory that the transport has to reserve for an admitted call.
type Plan struct {
	// Args is the largest possible size of the arguments, in bytes. The transport needs it if it
	// does not know the message's length yet.
	Args int
	// Reply is the largest size of the RPC reply message without payload, in bytes. It is the
	// argument for Way.Writer.
	Reply int
	// Results is the payload memory that the results need, in bytes.
	Results int
	// Placement is true if eligible arguments and results may travel by direct data placement. It
	// is false under RPCSEC_GSS integrity and privacy.
	Placement bool
	// Early is true if the program can answer from the part that has arrived. The transport then
	// reserves no memory, calls Serve at once, and skips the rest of the call.
	Early bool
	// Group, if not nil, is a second bound on the memory reserved for the call, in addition to the
	// connection's own bound.
	Group *mem.Group
}
