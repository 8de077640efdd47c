package nfs41

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Errors of callbacks. Others are those of the connection.
var (
	// ErrNoPath: the session has no connection that the client could be called over, or
	// the client does not want to be called.
	ErrNoPath = errors.New("nfs41: there is no connection to call the client back over")
	// ErrUnanswered: the client did not answer in time.
	ErrUnanswered = errors.New("nfs41: the client did not answer a callback in time")
	// ErrTooLarge: the call is longer than what the client takes.
	ErrTooLarge = errors.New("nfs41: the callback is longer than the client takes")
	// ErrTooMany: too many calls wait already.
	ErrTooMany = errors.New("nfs41: too many callbacks wait for the client")
	// ErrBadAnswer: the answer is none to what was asked.
	ErrBadAnswer = errors.New("nfs41: the client answered a callback with something else")
)

// callTime is how long a callback may take, from when it is asked for.
const callTime = 10 * time.Second

// maxCall is the longest operation of a callback, and maxResult its longest result, in
// bytes: both go inline on every transport.
const (
	maxCall   = 2 << 10
	maxResult = 512
)

// sizeCall is what a call takes in memory beside its operation, in bytes: with what the
// connection has of it.
const sizeCall = 1 << 10

// A Callback is one operation that is done by the client (RFC 8881 §20).
type Callback struct {
	Number wire.CBOpNum
	// Args encodes the arguments. It is not called after Call returned.
	Args interface{ Encode(w *xdr.Writer) }
	// Sent, where set, is called each time the operation is handed to a connection,
	// without a lock. It must not block.
	Sent func()
	// Done is called once, without a lock, perhaps before Call returns. It must not
	// block. Where err is nil the client answered: status is the operation's, and what
	// follows it is in result, which is valid during Done.
	Done func(status wire.NFSStat4, result *xdr.Decoder, err error)
}

// A call is a Callback on its way.
type call struct {
	*Callback
	session *Session
	body    []byte // number and arguments
	charge  int64  // what it has taken of the memory for replies
	expires time.Time
	slot    int // of the backchannel
	// probe: the call finds out first whether the one before it in the slot was
	// executed, for that was not answered.
	probe    bool
	attempts int
}

// maxAttempts is how often a call is made at most, over one connection or several.
const maxAttempts = 4

// Call has the client do an operation, over any connection of the session that carries
// calls back. It returns at once.
func (s *Session) Call(b *Callback) {
	c := &call{Callback: b, session: s, expires: time.Now().Add(callTime)}
	var room [maxCall]byte
	w := xdr.NewWriter(room[:0])
	w.Uint32(uint32(b.Number))
	b.Args.Encode(w)
	if w.Overflow() {
		c.end(ErrTooLarge)
		return
	}
	n := int64(sizeCall + w.Len())
	if !s.minor.cache.take(s.share, n) {
		c.end(ErrTooMany)
		return
	}
	c.body, c.charge = bytes.Clone(w.Bytes()), n
	if ok, err := s.queue(c); err != nil {
		c.end(err)
	} else if ok {
		c.start()
	}
}

// end is the end of a call that was not answered.
func (c *call) end(err error) {
	c.giveBack()
	c.Done(0, nil, err)
}

// giveBack gives back the memory that the call took.
func (c *call) giveBack() {
	c.session.minor.cache.account(c.session.share, -c.charge)
	c.charge = 0
}

// start makes the call, which has a slot.
func (c *call) start() {
	conn := c.session.caller()
	if conn == nil {
		c.finish(ErrNoPath, false)
		return
	}
	x := c.exchange()
	over, size, ok := c.session.protect(conn, x)
	switch {
	case !ok:
		c.finish(ErrNoPath, false)
		return
	case size > int(c.session.back.Maxrequestsize):
		c.finish(ErrTooLarge, false)
		return
	}
	x.Done = c.answered
	c.attempts++
	if c.Sent != nil && !c.probe {
		c.Sent()
	}
	startUntil(over, x, c.expires)
}

// startUntil makes a call that is given up at a time, which may have come already: what has
// not begun cannot be cancelled, so that the clock is set afterwards.
func startUntil(k rpc.Caller, x *rpc.Exchange, late time.Time) {
	var patience atomic.Pointer[time.Timer]
	var ended atomic.Bool
	done := x.Done
	x.Done = func(x *rpc.Exchange) {
		ended.Store(true)
		if t := patience.Load(); t != nil {
			t.Stop()
		}
		done(x)
	}
	k.Start(x)
	patience.Store(time.AfterFunc(time.Until(late), func() { k.Cancel(x, ErrUnanswered) }))
	if ended.Load() {
		patience.Load().Stop()
	}
}

// exchange is the call as it goes out now.
func (c *call) exchange() *rpc.Exchange {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	args := wire.CBSequence4Args{
		Sessionid: s.ID, Sequenceid: s.calls.slots[c.slot].sequence + 1, Slotid: uint32(c.slot), HighestSlotid: s.calls.highest(),
	}
	body, count := c.body, uint32(2)
	if c.probe {
		body, count = nil, 1
	}
	minor := s.minorVersion
	return &rpc.Exchange{
		Program: s.program, Version: wire.CallbackVersion, Procedure: wire.ProcCBCompound,
		MaxArgs: compoundHead + len(body), MaxResults: maxResult,
		Args: func(w *xdr.Writer) {
			w.Opaque(nil) // tag
			w.Uint32(minor)
			w.Uint32(0) // callback_ident: not used with sessions
			w.Uint32(count)
			w.Uint32(uint32(wire.OpCBSequence))
			args.Encode(w)
			w.FixedOpaque(body)
		},
	}
}

// compoundHead is what stands before the operation: tag, minor version, callback_ident,
// count, and CB_SEQUENCE, in bytes.
const compoundHead = 4*4 + 4 + 16 + 5*4

// answered goes on when the call was answered, or will not be.
func (c *call) answered(x *rpc.Exchange) {
	if x.Err != nil {
		c.lost(x.Err)
		return
	}
	a := readAnswer(&x.Results, c)
	switch {
	case a.sequence == wire.NFS4ErrDelay:
		// The one before it is under way still.
		c.finish(ErrUnanswered, true)
	case c.probe && a.sequence == wire.NFS4ErrSeqMisordered, a.sequence == wire.NFS4OK && !a.matches:
		c.session.setFault()
		c.finish(ErrBadAnswer, true)
	case c.probe:
		// Whatever it says, the client has seen this sequence now.
		c.session.advance(c.slot)
		c.probe = false
		c.again()
	case a.sequence == wire.NFS4ErrRetryUncachedRep || a.sequence == wire.NFS4ErrSeqFalseRetry || a.sequence == wire.NFS4ErrSeqMisordered:
		// It has seen this sequence before, and it was not ours.
		c.probe = true
		c.again()
	case a.sequence != wire.NFS4OK:
		c.finish(&StatusError{a.sequence}, false)
	default:
		s := c.session
		s.advance(c.slot)
		s.heard(a.target)
		next := s.release(c.slot, false)
		if a.short {
			c.end(ErrBadAnswer)
		} else {
			c.giveBack()
			c.Done(a.status, &a.rest, nil)
		}
		next.startAll()
	}
}

// A StatusError is what CB_SEQUENCE answered.
type StatusError struct{ Status wire.NFSStat4 }

func (e *StatusError) Error() string { return "nfs41: CB_SEQUENCE was answered " + e.Status.String() }

// lost goes on where no answer will come: the client may have executed the call, or not.
func (c *call) lost(err error) {
	var refused *rpc.ReplyError
	switch {
	case errors.As(err, &refused):
		c.session.setDown()
		c.finish(err, false)
	case errors.Is(err, ErrUnanswered):
		c.session.setDown()
		c.finish(err, true)
	default:
		c.probe = true
		c.again()
	}
}

// again makes the call once more, over whatever connection there is, unless it had its
// chances.
func (c *call) again() {
	if c.attempts >= maxAttempts || !time.Now().Before(c.expires) {
		c.finish(ErrUnanswered, c.probe)
		return
	}
	c.start()
}

// finish is the end of a call that was not answered. uncertain: the client may have
// executed it.
func (c *call) finish(err error, uncertain bool) {
	next := c.session.release(c.slot, uncertain || c.probe)
	c.end(err)
	next.startAll()
}

// An answer is what a client answered to a CB_COMPOUND.
type answer struct {
	sequence wire.NFSStat4
	// matches: the result of CB_SEQUENCE is that of our request.
	matches bool
	target  uint32
	// short: there is no result of the operation.
	short  bool
	status wire.NFSStat4
	rest   xdr.Decoder // behind the status
}

// readAnswer takes an answer apart.
func readAnswer(d *xdr.Decoder, c *call) (a answer) {
	whole := wire.NFSStat4(d.Int32())
	d.Opaque(maxResult) // tag
	n := d.Uint32()
	if d.Err() != nil || n == 0 || wire.CBOpNum(d.Int32()) != wire.OpCBSequence {
		// A client that does not get as far as CB_SEQUENCE says why in the status.
		if a.sequence = whole; whole == wire.NFS4OK {
			a.matches = false
		}
		return a
	}
	var res wire.CBSequence4Res
	res.Decode(d)
	if a.sequence = res.Status; d.Err() != nil {
		a.sequence = wire.NFS4OK
		return a
	}
	a.matches = res.Status == wire.NFS4OK && res.ResOK.Sessionid == c.session.ID && res.ResOK.Slotid == uint32(c.slot)
	a.target = res.ResOK.TargetHighestSlotid
	if n < 2 || wire.CBOpNum(d.Int32()) != c.Number {
		a.short = true
		return a
	}
	a.status = wire.NFSStat4(d.Int32())
	a.short = d.Err() != nil
	a.rest = *d
	return a
}
