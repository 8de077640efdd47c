package rpctest

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// An End is the method of rpc.Way that ended a call.
type End int

// Values of End. Open means that the call has not ended.
const (
	Open End = iota
	Sent
	Refused
	Dropped
	DroppedAndClosed
)

// A Call is an rpc.Call with a Way that records the end of the call. The Way panics if package rpc
// violates the rules of rpc.Way: if rpc ends the call twice, calls Writer or Detach after the end,
// or sends a reply that does not fit. At the end of the call, the Way overwrites the message and
// the reply's buffer, because a transport reuses them. So if code still uses a slice of them, it
// reads wrong bytes, and the test fails.
type Call struct {
	rpc.Call
	// Space is the space that the caller offers for the reply. The test sets it; the method Room
	// returns it.
	Space rpc.Room
	// Places[i] is the length, in bytes, of the Write chunk for eligible result i, which the method
	// Place returns. A negative number means that there is no Write chunk.
	Places []int
	// Done receives a value when the call has ended.
	Done chan struct{}

	// The following fields are valid once Done has received its value.
	End      End
	Why      rpc.Refusal
	Reply    []byte // the whole reply, with payloads and padding inserted
	Words    []byte
	Payloads []xdr.Payload // Data is in Reply; Ref was released
	Detached bool
	// Lent has the payloads as a transport gets them: not copied, in the program's memory.
	Lent [][]byte

	w       xdr.Writer
	buf     []byte
	arrived []byte // the message's buffer
	used    atomic.Bool
}

// TCPRoom is the rpc.Room of a call over TCP.
var TCPRoom = rpc.Room{Inline: 4 << 20}

// NewCall returns a call on conn with the Room of TCP. message is the whole RPC message.
func NewCall(conn *rpc.Conn, message []byte) *Call {
	c := &Call{Space: TCPRoom, Done: make(chan struct{}, 1)}
	c.Again(conn, message)
	return c
}

// Again reuses c for a new call. It keeps Space and Places.
func (c *Call) Again(conn *rpc.Conn, message []byte) {
	c.Conn, c.Way = conn, c
	c.arrived = append(c.arrived[:0], message...)
	c.Message, c.MessageLen = c.arrived, len(message)
	c.Excised, c.Placed = nil, nil
	c.End, c.Why, c.Detached = Open, 0, false
	c.Reply, c.Words, c.Payloads, c.Lent = c.Reply[:0], c.Words[:0], c.Payloads[:0], c.Lent[:0]
	c.used.Store(false)
}

// Run admits and serves c as a transport does, and waits for its end. It panics if the call does
// not end within 30 seconds (patience).
func (c *Call) Run(s *rpc.Server) *Call {
	if _, ok := s.Admit(&c.Call); ok {
		s.Serve(&c.Call)
	}
	select {
	case <-c.Done:
		return c
	default:
	}
	guard := time.NewTimer(patience)
	defer guard.Stop()
	select {
	case <-c.Done:
		return c
	case <-guard.C:
		panic(fmt.Sprintf("rpctest: a call of procedure %d was not answered within %v", c.Header.Procedure, patience))
	}
}

// patience is the longest time that Run waits.
const patience = 30 * time.Second

// Go is like Run, but does not wait for the end of the call.
func (c *Call) Go(s *rpc.Server) *Call {
	if _, ok := s.Admit(&c.Call); ok {
		s.Serve(&c.Call)
	}
	return c
}

var zeros [4]byte

// Room implements rpc.Way.
func (c *Call) Room() rpc.Room { return c.Space }

// Place implements rpc.Way.
func (c *Call) Place(i int) (int, bool) {
	if i >= len(c.Places) || c.Places[i] < 0 {
		return 0, false
	}
	return c.Places[i], true
}

// Writer implements rpc.Way.
func (c *Call) Writer(words int) *xdr.Writer {
	c.inUse("Writer")
	n := min(words, c.Space.Largest())
	if cap(c.buf) < n {
		c.buf = make([]byte, 0, n)
	}
	// The capacity is not larger than requested, so that tests fail if a reply needs more.
	c.w.Reset(c.buf[:0:n])
	return &c.w
}

// Detach implements rpc.Way. It overwrites the old message and the old buffer.
func (c *Call) Detach() {
	c.inUse("Detach")
	if c.Detached {
		return
	}
	c.Detached = true
	old, arrived := c.buf, c.arrived
	c.buf = make([]byte, 0, cap(c.w.Bytes()))
	c.w.Rebase(c.buf)
	clear(old[:cap(old)])
	c.arrived = bytes.Clone(arrived)
	if len(arrived) > 0 && len(c.Message) > 0 && &c.Message[0] == &arrived[0] {
		c.Message = c.arrived[:len(c.Message)]
		scribble(arrived)
	} else {
		c.Message = bytes.Clone(c.Message)
	}
}

// scribble overwrites memory that a transport would reuse.
func scribble(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// Send implements rpc.Way.
func (c *Call) Send() {
	c.use("Send")
	if c.w.Overflow() {
		panic("rpctest: Send of a reply that does not fit")
	}
	c.Words = append(c.Words, c.w.Bytes()...)
	at := 0
	for _, p := range c.w.Payloads() {
		c.Reply = append(c.Reply, c.Words[at:p.Position]...)
		c.Lent = append(c.Lent, p.Data)
		from := len(c.Reply)
		c.Reply = append(c.Reply, p.Data...)
		p.Data, p.Ref = c.Reply[from:], nil
		c.Reply = append(c.Reply, zeros[:xdr.Pad(len(p.Data))]...)
		at = p.Position
		c.Payloads = append(c.Payloads, p)
	}
	c.Reply = append(c.Reply, c.Words[at:]...)
	scribble(c.w.Bytes())
	c.w.Release()
	c.finish(Sent)
}

// Refuse implements rpc.Way.
func (c *Call) Refuse(r rpc.Refusal) {
	c.use("Refuse")
	c.Why = r
	c.finish(Refused)
}

// Drop implements rpc.Way.
func (c *Call) Drop() {
	c.use("Drop")
	c.finish(Dropped)
}

// DropAndClose implements rpc.Way.
func (c *Call) DropAndClose() {
	c.use("DropAndClose")
	c.finish(DroppedAndClosed)
}

func (c *Call) finish(e End) {
	c.End = e
	scribble(c.arrived)
	c.Done <- struct{}{}
}

func (c *Call) inUse(what string) {
	if c.used.Load() {
		panic(fmt.Sprintf("rpctest: %s after the way was used", what))
	}
}

func (c *Call) use(what string) {
	if c.used.Swap(true) {
		panic(fmt.Sprintf("rpctest: %s after the way was used", what))
	}
}

// Results reads the reply's header and returns a Decoder at the results. It returns an error if the
// call got no reply, or one that is not SUCCESS or has another XID.
func (c *Call) Results() (*xdr.Decoder, error) {
	if c.End != Sent {
		return nil, fmt.Errorf("rpctest: no reply (end %d, refusal %d)", c.End, c.Why)
	}
	d := xdr.NewDecoder(c.Reply)
	xid, _, err := rpc.ReadReply(d)
	if err == nil && xid != c.Header.XID {
		err = fmt.Errorf("rpctest: reply to %#x instead of %#x", xid, c.Header.XID)
	}
	return d, err
}
