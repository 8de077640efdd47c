package tcp

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// markSize is the length of a fragment's header (RFC 5531 §11), in bytes.
const markSize = 4

// lastFragment is the bit of a fragment's header that is set in the last fragment of a record.
const lastFragment = 1 << 31

// maxFragment is the longest fragment that a header can announce, in bytes.
const maxFragment = lastFragment - 1

// putMark makes b's first word the header of a record of one fragment.
func putMark(b []byte, length int) {
	binary.BigEndian.PutUint32(b, lastFragment|uint32(length))
}

func mark(b []byte) (length int, last bool) {
	h := binary.BigEndian.Uint32(b)
	return int(h &^ lastFragment), h&lastFragment != 0
}

// ringRecord is the longest record that may be received in the ring as a whole, in bytes. A longer
// call is admitted by its first rpc.AdmitPrefix bytes, and the rest goes to payload memory.
const ringRecord = 8 << 10

// If the gathered replies have more than batchLimit bytes, or batchChanges of them are for calls that
// change the file system, they are sent although there is more input. A call that changes something
// takes long: a client that has sent 16 of them can prepare its next calls after 8 replies.
const (
	batchLimit   = 64 << 10
	batchChanges = 8
)

// receiver is the state of a connection's receiving goroutine between two reads.
type receiver struct {
	ring  *ring // nil while the goroutine waits
	lent  turns.Borrower[*ring]
	stash []byte // the bytes that are not processed yet, while the connection has no ring
	kept  int    // bytes of stash that are charged to the ledger
	r, w  int    // ring[r:w] holds the bytes that are not processed yet

	// The record in progress, if within is set. The bytes received so far are
	// ring[start:end], until the record gets memory outside the ring.
	within     bool
	heard      bool // true after the first complete record
	mistake    *doorway.Mistake
	start, end int
	left       int  // bytes of the current fragment that are still to come
	last       bool // true if the current fragment ends the record
	size       int  // bytes of the record that have arrived
	inRing     int  // the longest record that may stay in the ring, in bytes

	// If skip is set, the rest of the record is dropped. If placed is set, the rest goes to the
	// buffer place and then to those in further, which belong to the call large or to reply.
	skip    bool
	placed  bool
	place   []byte
	further [][]byte
	most    int // the longest length that the record may reach, in bytes
	large   *call
	reply   *incoming

	member busypoll.Member
	served uint64 // number of records begun when the input was last used up
	lending

	current *call // result of callRecord, or nil
	chunk   *chunk
	batch   pieces
	batched int // bytes in batch
	changes int // replies in the batch to calls that change the file system
}

// drop releases everything that the receiver holds, at the end of the connection.
func (c *conn) drop() {
	if k := c.large; k != nil {
		c.large = nil
		k.Drop()
	}
	c.reply = nil
	if c.current != nil {
		c.current.conn = nil
		calls.Put(c.current)
		c.current = nil
	}
	c.batch.release()
	drop(&c.chunk)
	if c.ring != nil {
		rings.GiveBack(c.ring)
		c.ring = nil
	}
	c.stash = nil
	c.chargeStash()
}

// ready reads and serves until there is no more input, or until the goroutine must run a call that
// may block (lending). It returns true if the stream has to wait for more input.
func (c *conn) ready() (more bool) {
	fresh := c.resumed
	if fresh {
		c.resume()
	} else {
		c.member.Wake()
		c.work()
	}
	more = c.serveInput(fresh)
	if c.turn == nil {
		c.member.Rest()
	}
	return more
}

// serveInput reads input and serves calls. fresh is true if the goroutine has just resumed the
// connection (resume).
func (c *conn) serveInput(fresh bool) (more bool) {
	for !c.dead() && !c.leaving.Load() {
		space, direct := c.space()
		read := c.read
		switch {
		case fresh:
			read = c.readFirst
		case c.member.Polls():
			read = c.poll
		}
		fresh = false
		n, more, err := read(space, direct)
		if err == errAgain {
			return c.drained()
		}
		if err != nil {
			if err != io.EOF || c.within {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				c.kill(err)
			}
			c.pause()
			return false
		}
		c.member.Came()
		c.received.Add(uint64(n))
		if direct {
			c.advance(n)
		} else {
			c.w += n
		}
		c.more = more
		goesOn := c.parse()
		if c.turn != nil {
			c.leaves()
			return false
		}
		if !goesOn {
			break
		}
		if !more && !c.begins() {
			return c.drained()
		}
	}
	c.pause()
	return false
}

// begins reports whether the goroutine polls for the next call before it waits (package busypoll). If
// so, begins has sent the replies.
func (c *conn) begins() bool {
	begun := c.records.Load()
	alone := !c.within && begun-c.served == 1 && c.inFlight.Load() == 0
	c.served = begun
	if !c.within {
		c.emptied = begun
	}
	if !c.member.Begin(alone) {
		return false
	}
	c.pause()
	c.doing.Store(betweenRecs)
	return true
}

// poll tries to read until input comes or the time for polling is over.
func (c *conn) poll(space []byte, direct bool) (n int, more bool, err error) {
	came := false
	for err = errAgain; err == errAgain && !came && c.member.Again() && !c.dead() && !c.leaving.Load(); {
		if c.member.Yields() {
			came = c.stream.readable()
		} else {
			n, more, err = c.read(space, direct)
		}
	}
	c.member.End(came || err != errAgain)
	if err != errAgain {
		c.work()
	}
	return n, more, err
}

// read calls tryRead of the stream. If the record is a reply whose exchange has ended, read discards
// the bytes.
func (c *conn) read(space []byte, direct bool) (n int, more bool, err error) {
	if !direct || c.reply == nil {
		return c.stream.tryRead(space)
	}
	if !c.reply.lock() {
		c.borrow()
		return c.stream.tryRead(c.ring[:min(len(space), ringSize)])
	}
	defer c.reply.unlock()
	return c.stream.tryRead(space)
}

// drained sends the replies and releases memory, because there is no more input. It returns true if
// the connection has to wait for more.
func (c *conn) drained() bool {
	c.pause()
	doing := betweenRecs
	if c.within {
		doing = insideRec
	}
	c.giveBack()
	drop(&c.chunk)
	c.doing.Store(doing)
	return !c.dead() && !c.leaving.Load()
}

// parse processes the records in the ring. It returns false if the connection has ended.
func (c *conn) parse() bool {
	for {
		switch {
		case !c.within:
			if c.r == c.w {
				return true
			}
			c.within = true
			c.records.Add(1)
			c.size, c.left, c.last = 0, 0, false
			c.start, c.end = c.r, c.r
		case c.left == 0 && c.last:
			if !c.complete() {
				return false
			}
			c.within, c.skip, c.placed, c.place, c.further = false, false, false, nil, nil
			if rings.Wanted() {
				c.endTurn()
			}
		case c.left == 0:
			if c.w-c.r < markSize {
				return true
			}
			c.left, c.last = mark(c.ring[c.r:])
			c.r += markSize
			c.inRing = c.longestInRing()
			if c.size == 0 {
				c.start, c.end = c.r, c.r
			}
			if c.left > c.cfg.MaxRecord-c.size {
				c.count.tooLong.Add(1)
				if c.mistake = c.mistaken(); c.mistake == nil {
					c.kill(c.tooLong())
				}
				return false
			}
			if c.placed && c.size+c.left > c.most {
				c.outgrown()
			}
		case c.r == c.w:
			return true
		default:
			c.gather()
			if !c.placed && !c.skip && c.size+c.left > c.inRing && c.size >= rpc.AdmitPrefix {
				if !c.admitLargeRecord() {
					return false
				}
			}
		}
	}
}

// mistaken returns the mistake of a peer of a Server whose first record exceeds the limit. It is nil if
// the peer may speak RPC.
func (c *conn) mistaken() *doorway.Mistake {
	if c.seat == nil || c.records.Load() > 1 || c.size > 0 {
		return nil
	}
	speaks := doorway.ProtocolOf(c.ring[c.r-markSize : c.w])
	if speaks == doorway.Unknown {
		return nil
	}
	return &doorway.Mistake{Speaks: speaks, Port: "NFS over TCP"}
}

// tooLong returns the reason for the end of a connection whose record exceeds the limit. On a connection
// that this side has opened, the peer may speak another protocol than RPC: the error then shows its
// first bytes.
func (c *conn) tooLong() error {
	if c.seat != nil || c.records.Load() > 1 || c.size > 0 {
		return errRecordTooLong
	}
	return fmt.Errorf("%w: it begins with %q", ErrNoRecord, c.ring[c.r-markSize:min(c.w, c.r+28)])
}

// longestInRing returns the length of the longest record that may stay in the ring, in bytes. It is
// less than ringRecord for a peer that has not proved to be a client yet (rpc.Conn.Known), because
// the heap keeps the bytes of an incomplete record: the call is admitted or refused early.
func (c *conn) longestInRing() int {
	if c.seat != nil && !c.peer.Known() {
		return rpc.AdmitPrefix
	}
	return ringRecord
}

// gather processes the bytes of the current fragment that are in the ring: it adds them to the
// record, or skips them.
func (c *conn) gather() {
	n := min(c.left, c.w-c.r)
	b := c.ring[c.r : c.r+n]
	switch {
	case c.skip:
	case c.placed:
		c.copyFragment(b)
		c.r += n
		return
	default:
		// admitLargeRecord looks only at the first AdmitPrefix bytes.
		if c.size+c.left > c.inRing && c.size < rpc.AdmitPrefix {
			n = min(n, rpc.AdmitPrefix-c.size)
			b = b[:n]
		}
		if c.end != c.r {
			copy(c.ring[c.end:], b)
		}
		c.end += n
	}
	c.r += n
	c.left -= n
	c.size += n
}

// complete passes a complete record on: a call to the RPC server, a reply to its exchange. It returns
// false if the connection has ended.
func (c *conn) complete() bool {
	if !c.heard {
		c.heard = true
		c.seat.Heard()
	}
	switch {
	case c.skip:
		return true
	case c.large != nil:
		k := c.large
		c.large = nil
		c.current = k
		k.Message = k.Memory.Bytes()[:c.size]
		k.MessageLen = c.size
		c.count.calls.Add(1)
		c.serve(k)
		return true
	case c.reply != nil:
		in := c.reply
		c.reply = nil
		c.caller.complete(in, c.size)
		return true
	}
	return c.dispatch()
}

// dispatch is complete for a record that is in the ring.
func (c *conn) dispatch() bool {
	m := c.ring[c.start:c.end:c.end]
	if _, kind, ok := rpc.MessageType(m); ok && kind == rpc.TypeReply {
		c.caller.replied(m)
		return true
	}
	if c.rpc == nil {
		c.count.malformed.Add(1)
		return true
	}
	k, plan, ok := c.admit(len(m))
	if k == nil {
		return false
	}
	c.count.calls.Add(1)
	if !ok {
		return true
	}
	words, size := planned(&plan)
	if size > 0 {
		b, ok := c.share.TryGetIn(plan.Group, size)
		if !ok {
			// Do not wait here: the peer's next calls would wait too, perhaps for memory that a
			// stalled file system holds.
			k.await(&plan, words, size)
			return true
		}
		k.setMemory(b, 0, words)
	}
	c.serve(k)
	return true
}

// admit admits the call whose message, or the start of it, is in the ring. length is what is known of
// the message's length. ok is false if the call has ended, and k is nil if the connection has.
func (c *conn) admit(length int) (k *call, plan rpc.Plan, ok bool) {
	if !c.gate() {
		return nil, plan, false
	}
	k = c.callRecord()
	k.Message, k.MessageLen, k.inRing = c.ring[c.start:c.end:c.end], length, true
	plan, ok = c.rpc.Admit(&k.Call)
	return k, plan, ok
}

// callRecord returns the record for the peer's next call: the same one each time, until Detach gives
// it to another goroutine.
func (c *conn) callRecord() *call {
	k := c.current
	if k == nil {
		k = calls.Get().(*call)
		c.current = k
	}
	k.conn = c
	k.Conn, k.Way = c.peer, k
	k.Excised, k.Placed, k.Memory, k.ResultsAt = nil, nil, nil, 0
	return k
}
