package rpc

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// AdmitPrefix is the number of bytes of a message that a transport must have received before it
// calls Admit, unless the message is shorter. That is enough for the largest header (RFC 5531 §8.2:
// two authenticators of 400 bytes) and the first arguments.
const AdmitPrefix = 2048

// Placed is the position and the length of an item that travels outside the message, in a Read
// chunk.
type Placed struct {
	Position uint32 // offset in bytes, in the RPC message with all items inserted
	Length   uint32
}

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

// A Call is one call on its way through the server. A transport embeds it in its own record of the
// call, which is also the Way. The transport may reuse the record after the end of the call, which
// is a call of the Way's Send, Refuse, Drop or DropAndClose.
type Call struct {
	Arrived

	// The transport sets the following fields after Admit and before Serve.

	// Excised are the contents of the items in Placed, in the same order.
	Excised []xdr.Excised
	// Memory is the block that the transport reserved for the call according to its Plan, or nil.
	// The transport holds one reference to the block until the end of the call. ResultsAt is the
	// offset of the block's first byte that no result uses yet: see ResultMemory.
	Memory    *mem.Buffer
	ResultsAt int

	// The rpc package sets the following fields for the program's Serve.

	// Args reads the arguments. It returns the items in Excised as if they were in the message.
	Args xdr.Decoder
	// Subject is the value that Judge has stored in Judgement.Subject.
	Subject any
	// Early is true if the program has set Judgement.Early. Args may then have only the start of
	// the arguments.
	Early bool
	// Try is true if Serve must not block. Where it would have to wait, it returns WouldBlock.
	Try bool
	// Progress belongs to the program, which stores in it how far an interrupted Serve has come. It
	// is nil at first.
	Progress any

	state callState // used by the rpc package alone
	// detached counts the calls of Detach on this record, over all RPC calls that used it. perform
	// compares it before and after a Serve, during which the record may have been reused. So Reset
	// does not set it to 0.
	detached atomic.Uint32
}

// Reset clears the record of a finished call for reuse. The transport calls it.
func (c *Call) Reset() {
	c.Leaves()
	c.Conn, c.Way = nil, nil
	c.Message, c.MessageLen = nil, 0
	c.Excised, c.Placed = nil, nil
	c.Memory, c.ResultsAt = nil, 0
	c.Header, c.Args, c.Cred = CallHeader{}, xdr.Decoder{}, Cred{}
	c.Subject, c.Early, c.Try, c.Progress = nil, false, false, nil
	c.state = callState{}
}

// callState is the Server's data in a Call.
type callState struct {
	server *Server
	// program serves the call. row is the table's row of the procedure, or nil if there is none.
	program   Service
	row       *procedureRow
	procedure *Procedure
	// handler, if not nil, serves the call instead of the program.
	handler Handler

	// guard protects the call. Without a guard, overhead is zero.
	guard    Guard
	overhead Overhead
	// sealed is true while the arguments are still protected. from and behind are the numbers of
	// bytes that Unwrap left before and after the arguments.
	sealed       bool
	from, behind int

	judged Judgement
	plan   Plan
	needed int // see Needed

	// w is the reply's writer, or nil before there is one. results is the offset of the results in
	// it.
	w       *xdr.Writer
	results int
	mark    mark
	// waits is true if the call is in the executor and has not begun.
	waits bool
	// close is true if the server closes the connection at the end of the call.
	close bool
	// entry is the call's entry in the duplicate-request cache while the call runs.
	entry *reply
	// apart is true if the call waits for another client's call with the same replyKey, and is
	// executed after it.
	apart bool
	// waiter is data of the duplicate-request cache.
	waiter waiter
	// took is the time at which Serve was called. It is set if Config.Observe is not nil, and while there is a trace.
	took time.Time
	// event describes the call's end to Config.Observe. It is here so that a call allocates none.
	event Event
	// place is data of the executor. worker is the worker that has the call, since when the call began to wait for one, and
	// first when it did so first or was first detached.
	place        lanePlace
	worker       *worker
	first, since time.Time
	// wait is what the call waits for after the next Detach, and listed is true while the call is in Server.apart.
	wait   Wait
	listed bool
	// longest is the longest time for which the call was in one stage since first, and longestStage and longestWait
	// that stage.
	longest      time.Duration
	longestStage Stage
	longestWait  Wait
	// traced is nil unless something traces.
	traced *traced
	// lender is not nil while the goroutine that received the call may run it as a Turn.
	lender *Lender
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
	words   int // bytes of the reply written
	results int // bytes of Memory that results use
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
	c.state.server.apart.add(c)
	c.detach()
}

func (c *Call) detach() {
	c.Way.Detach()
	c.moved()
	c.Args.Rebase(c.body())
	c.state.mark.args.Rebase(c.body())
}

// moved points the slices of Header and Cred at c.Message, after the transport has replaced it by a
// copy of the message. The lengths are valid, because Admit has parsed the header.
func (c *Call) moved() {
	m, h := c.Message, &c.Header
	at := callFixed + authFixed
	n := len(h.Cred.Body)
	h.Cred.Body = m[at : at+n : at+n]
	if c.Cred.Machine != nil {
		from := at + machineAt
		to := from + len(c.Cred.Machine)
		c.Cred.Machine = m[from:to:to]
	}
	at += n + xdr.Pad(n) + authFixed
	n = len(h.Verf.Body)
	h.Verf.Body = m[at : at+n : at+n]
}

// Complete ends a call whose Serve returns Outcome.Pending. It may be called before Serve has
// returned. results runs on the calling goroutine: it encodes the results as Service.Serve would,
// and returns the outcome, which may be neither Block nor Pending.
func (c *Call) Complete(results func(w *xdr.Writer) Outcome) {
	c.rewind()
	s, w := c.state.server, c.state.w
	s.apart.remove(c)
	s.conclude(c, w, s.encode(c, w, results))
}

// Resume makes the executor call Serve again for a call whose Serve returns Outcome.Pending. The
// second Serve has Try false, and the arguments and the reply as they were at the last Mark. lane
// names the resource that the call may wait for. Resume may be called before the first Serve has
// returned, if that Serve does not use the call any more.
func (c *Call) Resume(lane any) {
	c.rewind()
	c.Try = false
	c.state.server.apart.remove(c)
	c.state.server.exec.submit(c, lane)
}

// GiveWay lets other work of the server run, if the call has run on a worker for long: ran is that
// time. If other calls should run before the rest of this call, it returns true, and the program has
// to call Detach and Resume. Otherwise it may let other goroutines run once, and returns false.
func (c *Call) GiveWay(ran time.Duration) bool {
	if ran < yieldAfter {
		return false
	}
	if c.state.server.exec.mustGiveWay(ran) {
		return true
	}
	runtime.Gosched()
	return false
}

// ResultMemory returns n bytes of the call's reserved memory for a result's payload, valid until the
// end of the call. It returns nil if fewer than n bytes are left of the memory of the Plan.
func (c *Call) ResultMemory(n int) []byte {
	if c.Memory == nil || n > len(c.Memory.Bytes())-c.ResultsAt {
		return nil
	}
	b := c.Memory.Bytes()[c.ResultsAt : c.ResultsAt+n : c.ResultsAt+n]
	c.ResultsAt += n
	return b
}

// Eligible returns data, which must be memory that ResultMemory returned, as a result that the
// transport may place directly. The result holds a reference to c.Memory.
func (c *Call) Eligible(data []byte) xdr.Eligible {
	if len(data) == 0 {
		return xdr.Eligible{}
	}
	c.Memory.Retain()
	return xdr.Eligible{Data: data, Ref: c.Memory}
}

// ResultRoom returns the largest size, in bytes, that the next eligible result may have: the length
// of its own Write chunk or, without one, the space left in the reply message (RFC 8267 §6). rest is
// the number of bytes that the program still has to write into the message: the count of this
// result, and everything after it.
func (c *Call) ResultRoom(w *xdr.Writer, rest int) int {
	next, left := c.unplaced(w)
	if n, ok := c.place(next); ok {
		return n
	}
	// Round down to a multiple of four, so that the padding of the result fits as well.
	return max(left-rest, 0) &^ 3
}

// WordsRoom returns how many bytes, apart from payload, the program may still write if the reply is
// to fit into the space that the caller offers.
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
	return next, c.Way.Room().Largest() - without - c.state.overhead.Behind
}

// place returns the length, in bytes, of the Write chunk that the caller offers for eligible result
// i, counted from 0. ok is false if there is none, or if the Plan forbids direct data placement.
func (c *Call) place(i int) (n int, ok bool) {
	if !c.state.plan.Placement {
		return 0, false
	}
	return c.Way.Place(i)
}

// A Plan lists the memory that the transport has to reserve for an admitted call.
type Plan struct {
	// Args is the largest possible size of the arguments, in bytes. A transport that does not know
	// the message's length yet needs it.
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
	// Group, if not nil, limits the memory that is reserved for all calls of the call's lane
	// together (see Judgement.Lane). The limit of the connection holds as well.
	Group *mem.Group
}

// Room is the space that the caller offers for the reply to one call, in bytes of the RPC message.
// It does not include results that go into a Write chunk (Way.Place).
type Room struct {
	// Inline is the largest reply without any chunk.
	Inline int
	// ReplyChunk is the largest reply in a Reply chunk, or 0 if the caller offers none. Over TCP it
	// is 0, and Inline limits all replies.
	ReplyChunk int
}

// Largest returns the size of the largest reply message that fits, in bytes, without directly
// placed results.
func (r Room) Largest() int { return max(r.Inline, r.ReplyChunk) }

// A Refusal is a reason to end a call without an RPC reply. RPC-over-RDMA sends its own error
// message instead (RDMA_ERROR with ERR_CHUNK). A transport without error messages drops the call.
type Refusal uint8

// Values of Refusal.
const (
	// RefuseNotACall means that the message is not an RPC call.
	RefuseNotACall Refusal = iota + 1
	// RefuseChunk means that an item in a Read chunk is not eligible for direct data placement, or
	// is larger than the procedure allows.
	RefuseChunk
	// RefuseRoom means that the reply does not fit into the space that the caller offers.
	RefuseRoom
)

// A Way is the transport's object for the reply to one call. To end the call, the rpc package calls
// exactly one of Send, Refuse, Drop and DropAndClose, once, from any goroutine. The Call and its
// memory then belong to the transport again. No method blocks.
type Way interface {
	// Room returns the space that the caller offers. It may be called from Admit on.
	Room() Room
	// Place returns the length, in bytes, of the Write chunk that the caller offers for eligible
	// result i, counted from 0. If there is none, it returns false, and the result goes into the
	// message. It may be called from Admit on.
	Place(i int) (length int, ok bool)
	// Writer begins a new reply. It returns an empty writer for the RPC message, with a capacity in
	// bytes of at least the smaller of words and Room().Largest(). The writer is valid until Send,
	// Refuse, Drop, DropAndClose or the next Writer. Before Detach, the writer's memory may be
	// shared by all calls of the connection, so the caller has to finish this call before it begins
	// another one. The Way does not release the payloads of a reply that is not sent: the rpc
	// package releases them before it calls Refuse, Drop, DropAndClose or Writer again.
	Writer(words int) *xdr.Writer
	// Detach copies the Message and the Writer's content from memory that all calls of the
	// connection share to memory of this call alone, so that the call can continue after Serve has
	// returned. A writer that was returned before stays valid, with the same content and capacity.
	// Further calls of Detach have no effect.
	Detach()
	// Send sends the Writer's content and payloads, and releases the payloads later. They may be in
	// any memory. If the reply does not fit the Room, Send acts like Refuse(RefuseRoom).
	Send()
	// Refuse answers with an error message of the transport, or drops the call if the transport has
	// none.
	Refuse(r Refusal)
	// Drop ends the call without a reply.
	Drop()
	// DropAndClose is like Drop, and also closes the connection.
	DropAndClose()
}
