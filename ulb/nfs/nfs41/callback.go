package nfs41

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Errors of callbacks. A callback may also fail with an error of the connection.
var (
	// ErrNoPath: the session has no connection over which the client can be called, or the
	// client does not want calls.
	ErrNoPath = errors.New("nfs41: there is no connection to call the client back over")
	// ErrUnanswered: the client did not answer in time.
	ErrUnanswered = errors.New("nfs41: the client did not answer a callback in time")
	// ErrTooLarge: the call is longer than the client accepts.
	ErrTooLarge = errors.New("nfs41: the callback is longer than the client takes")
	// ErrTooMany: too many calls wait already.
	ErrTooMany = errors.New("nfs41: too many callbacks wait for the client")
	// ErrBadAnswer: the answer does not match the call.
	ErrBadAnswer = errors.New("nfs41: the client answered a callback with something else")
)

// callTime is the time limit of a callback, with all its attempts.
const callTime = 10 * time.Second

// maxCall is the size of the longest operation of a callback, in bytes. maxResult is the size of
// the longest results of a callback, in bytes, those of CB_SEQUENCE included. On RDMA both fit in a
// Send if the peer's inline threshold is 4096 bytes or more.
const (
	maxCall   = 2 << 10
	maxResult = 512
)

// sizeCall is the memory that a call uses besides its operation, in bytes. It includes the memory
// that the connection uses for the call.
const sizeCall = 1 << 10

// A Callback is one operation for the client to do (RFC 8881 §20).
type Callback struct {
	Number wire.CBOpNum
	// Args encodes the arguments. It is not used after Call has returned.
	Args interface{ Encode(w *xdr.Writer) }
	// The session calls Done once, perhaps before Call returns. It holds no lock then. Done must
	// not block. If err is nil, the client answered: status is the operation's status, and result
	// holds the bytes after it. result is valid until Done returns.
	Done func(status wire.NFSStat4, result *xdr.Decoder, err error)
}

// A call is a Callback that waits for a slot or is under way.
type call struct {
	*Callback
	session *Session
	body    []byte // number and arguments
	charge  int64  // memory counted in cache.others, in bytes
	expires time.Time
	slot    int // slot of the backchannel
	// probe is true while the server does not know whether the client has seen the slot's next sequence
	// number, for example because a call got no answer. The session then sends CB_SEQUENCE alone before
	// the call.
	probe    bool
	attempts int
}

// maxAttempts is the maximum number of times that the session sends one call, over all connections
// together. Probes for the call count as well.
const maxAttempts = 4

// Call starts a callback over any connection of the session that carries calls to the client. It
// returns at once; b.Done gets the result.
func (s *Session) Call(b *Callback) {
	c := &call{Callback: b, session: s, expires: time.Now().Add(callTime)}
	var room [maxCall]byte
	w := xdr.NewWriter(room[:0])
	w.Uint32(uint32(b.Number))
	b.Args.Encode(w)
	if w.Overflow() {
		c.fail(ErrTooLarge)
		return
	}
	n := int64(sizeCall + w.Len())
	if !s.minor.cache.reserve(s.share, n) {
		c.fail(ErrTooMany)
		return
	}
	c.body, c.charge = bytes.Clone(w.Bytes()), n
	if ok, err := s.queue(c); err != nil {
		c.fail(err)
	} else if ok {
		c.start()
	}
}

// fail ends a call that has no slot, or no slot any more, with an error. finish does so for a call
// that has a slot.
func (c *call) fail(err error) {
	c.giveBack()
	c.Done(0, nil, err)
}

// giveBack gives back the memory that the call uses.
func (c *call) giveBack() {
	c.session.minor.cache.account(c.session.share, -c.charge)
	c.charge = 0
}

// start sends the call, or first a probe (see call.probe), in the call's slot. If that is not
// possible, it ends the call with an error.
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
	startUntil(over, x, c.expires)
}

// startUntil makes the call x on k, and cancels it with ErrUnanswered at the time late, perhaps at once. A
// call that has not begun cannot be cancelled, so the timer is set after Start.
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

// exchange returns the RPC that carries the call. A probe carries only CB_SEQUENCE.
func (c *call) exchange() *rpc.Exchange {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	args := wire.CBSequence4Args{
		Sessionid: s.ID, Sequenceid: s.calls.slots[c.slot].sequence + 1, Slotid: uint32(c.slot),
	}
	for i := range s.calls.slots {
		if s.calls.slots[i].busy {
			args.HighestSlotid = uint32(i)
		}
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

// compoundHead is the size of the part before the operation, in bytes: tag, minor version,
// callback_ident, count, and CB_SEQUENCE.
const compoundHead = 4*4 + 4 + 16 + 5*4

// answered handles the answer to the call, or its failure.
func (c *call) answered(x *rpc.Exchange) {
	if x.Err != nil {
		c.lost(x.Err)
		return
	}
	a := readAnswer(&x.Results, c)
	switch {
	case a.sequence == wire.NFS4ErrDelay:
		// The client is still executing the previous call of the slot.
		c.finish(ErrUnanswered, true)
	case c.probe && a.sequence == wire.NFS4ErrSeqMisordered, a.sequence == wire.NFS4OK && !a.matches:
		c.session.fault.Store(true)
		c.finish(ErrBadAnswer, true)
	case c.probe:
		// The answer to the probe shows that the client has seen this sequence number: send the
		// call itself with the next number.
		c.session.mu.Lock()
		c.session.calls.slots[c.slot].sequence++
		c.session.mu.Unlock()
		c.probe = false
		c.again()
	case a.sequence == wire.NFS4ErrRetryUncachedRep || a.sequence == wire.NFS4ErrSeqFalseRetry || a.sequence == wire.NFS4ErrSeqMisordered:
		// The client seems to have seen this sequence number before, in another call. A probe finds
		// out whether that is so.
		c.probe = true
		c.again()
	case a.sequence != wire.NFS4OK:
		c.finish(&StatusError{a.sequence}, false)
	default:
		s := c.session
		s.mu.Lock()
		s.calls.slots[c.slot].sequence++
		s.calls.target = a.target
		s.mu.Unlock()
		s.down.Store(false)
		s.answered.Store(true)
		next := s.release(c.slot, false)
		if a.short {
			c.fail(ErrBadAnswer)
		} else {
			c.giveBack()
			c.Done(a.status, &a.rest, nil)
		}
		startAll(next)
	}
}

// A StatusError is the error status of CB_SEQUENCE.
type StatusError struct{ Status wire.NFSStat4 }

func (e *StatusError) Error() string { return "nfs41: CB_SEQUENCE was answered " + e.Status.String() }

// lost handles a call that failed. If the client refused it or did not answer in time, lost ends it. If
// the connection failed, the client may have executed the call: lost sends a probe, and then perhaps the
// call again.
func (c *call) lost(err error) {
	var refused *rpc.ReplyError
	switch {
	case errors.As(err, &refused):
		c.session.down.Store(true)
		c.finish(err, false)
	case errors.Is(err, ErrUnanswered):
		c.session.down.Store(true)
		c.finish(err, true)
	default:
		c.probe = true
		c.again()
	}
}

// again repeats the call over any connection, unless its attempts or its time are used up.
func (c *call) again() {
	if c.attempts >= maxAttempts || !time.Now().Before(c.expires) {
		c.finish(ErrUnanswered, c.probe)
		return
	}
	c.start()
}

// finish ends a call with an error, and frees its slot. uncertain is true if the client may have
// executed the call.
func (c *call) finish(err error, uncertain bool) {
	next := c.session.release(c.slot, uncertain || c.probe)
	c.fail(err)
	startAll(next)
}

// An answer is a client's reply to a CB_COMPOUND.
type answer struct {
	sequence wire.NFSStat4
	// matches is true if the result of CB_SEQUENCE belongs to the server's request.
	matches bool
	target  uint32
	// short is true if the result of the operation is missing.
	short  bool
	status wire.NFSStat4
	rest   xdr.Decoder // the bytes after the status
}

// readAnswer decodes the client's reply to the call c.
func readAnswer(d *xdr.Decoder, c *call) (a answer) {
	whole := wire.NFSStat4(d.Int32())
	d.Opaque(maxResult) // tag
	n := d.Uint32()
	if d.Err() != nil || n == 0 || wire.CBOpNum(d.Int32()) != wire.OpCBSequence {
		a.sequence = whole // a client that fails before CB_SEQUENCE gives the reason here
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

// notifyLock sends CB_NOTIFY_LOCK (RFC 8881 §20.11): a lock that the client waits for may be
// free now. It is only a hint: without it, the client asks again after a time.
func (m *Minor) notifyLock(n state.LockNotice) {
	o, ok := n.Tag.(nfs4.Object)
	if !ok || n.Client.Kind == state.Minor0 {
		return
	}
	Call(n.Client, &Callback{
		Number: wire.OpCBNotifyLock,
		Args: &wire.CBNotifyLock4Args{
			FH:        m.cfg.Exports.Seal(nil, o.Export, o.Handle),
			LockOwner: wire.StateOwner4{Clientid: n.Client.ID, Owner: []byte(n.Owner)},
		},
		Done: func(wire.NFSStat4, *xdr.Decoder, error) {},
	})
}
