package gss

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// maxOverhead is the largest number of bytes that the protection adds to arguments or results.
const maxOverhead = 1024

// bound returns the largest number of bytes that the protection adds to the call's arguments or
// results. If the Client may replace its context, the number is maxOverhead, because the sizes of
// the next context are not known. Otherwise it is exact.
func (e *call) bound() int {
	if !e.client.fixed {
		return maxOverhead
	}
	e.set(e.client.ctx.ctx, e.service, 0)
	o := e.overhead()
	return o.Before + o.Behind
}

// A call is one call of a Client. x is the user's Exchange; inner is the protected Exchange that
// the Client sends for it.
type call struct {
	protector
	client *Client
	x      *rpc.Exchange
	inner  rpc.Exchange
	under  *clientContext
	proc   procedure

	// The Client's mutex guards these fields.
	queue.Links[call]
	again bool // the call was already repeated once
	waits bool // the call is in Client.waiting
	// started is true once inner was passed to the underlying Caller. cancelled is the error of
	// Cancel. If started is false then, pump cancels inner after it has passed it on.
	started   bool
	cancelled error
}

func newCall(c *Client, x *rpc.Exchange) *call {
	e := &call{client: c, x: x, proc: procData}
	e.service = c.cfg.Service
	x.Err, x.Results, x.Verf = nil, xdr.Decoder{}, rpc.AuthBytes{}
	y := &e.inner
	y.Program, y.Version, y.Procedure = x.Program, x.Version, x.Procedure
	y.Sign, y.Done = e.authenticate, e.done
	if e.service == rpc.GSSNone {
		y.Binding, y.Args, y.MaxArgs, y.MaxResults = x.Binding, x.Args, x.MaxArgs, x.MaxResults
		y.Sinks, y.Locate = x.Sinks, x.Locate
		return e
	}
	// No item may travel outside the message (RFC 8166 §8.2.2).
	more := e.bound()
	y.Args, y.MaxArgs = e.args, x.MaxArgs+more
	if n, known := e.largestResults(); known {
		y.MaxResults = n + more
	}
	return e
}

// largestResults returns the largest size of the results in bytes, with all items in the message.
// known is false if the user's Exchange does not limit the results: it has no MaxResults, no
// Binding and no Sinks.
func (e *call) largestResults() (n int, known bool) {
	x := e.x
	switch {
	case x.MaxResults > 0:
		n = x.MaxResults
	case x.Binding != nil:
		n = e.shapeOfResults()
	case len(x.Sinks) == 0:
		return 0, false
	}
	for _, s := range x.Sinks {
		n += padded(len(s))
	}
	return n, true
}

// shapeOfResults returns the largest size of the results in bytes, according to the Binding. It
// encodes the arguments, because the Binding computes the size from them.
func (e *call) shapeOfResults() int {
	x := e.x
	w := xdr.NewWriter(make([]byte, 0, x.MaxArgs))
	if x.Args != nil {
		x.Args(w)
	}
	defer w.Release()
	var beside []rpc.Placed
	shift := 0
	for _, p := range w.Payloads() {
		beside = append(beside, rpc.Placed{Position: uint32(p.Position + shift), Length: uint32(len(p.Data))})
		shift += padded(len(p.Data))
	}
	shape, _ := x.Binding.Shape(*xdr.NewDecoder(w.Bytes()), beside)
	if len(x.Sinks) > 0 {
		return shape.Words
	}
	return shape.Words + padded(shape.Payload)
}

// authenticate writes credential and verifier. It takes a new sequence number, because each
// transmission of a call needs its own (RFC 2203 §5.3.3.1).
func (e *call) authenticate(_ *rpc.Exchange, w *xdr.Writer) {
	e.set(e.under.ctx, e.service, e.under.seq.Add(1))
	c := credential{proc: e.proc, seq: e.seq, service: e.service, handle: e.under.handle}
	c.put(w)
	if w.Overflow() || !e.putVerifier(w, w.Bytes()) {
		w.Fail()
	}
}

// args writes the arguments and protects them.
func (e *call) args(w *xdr.Writer) {
	w.Reserve(e.overhead().Before)
	from := w.Len()
	if e.x.Args != nil {
		e.x.Args(w)
	}
	if w.Overflow() {
		return
	}
	if e.service == rpc.GSSPrivacy {
		w.CopyPayloads(nil) // encryption changes them, and the originals belong to the user
	}
	if !e.wrap(w, from) {
		w.Fail()
	}
}

// done handles the end of the inner Exchange.
func (e *call) done(y *rpc.Exchange) {
	c, x := e.client, e.x
	err := e.judge(y)
	if renewable(err) {
		if err = c.again(e, err); err == nil {
			c.pump()
			return
		}
	}
	x.XID, x.Results, x.Verf = y.XID, y.Results, y.Verf
	c.ended(e)
	finish(x, err)
	c.pump()
}

// finish reports the end of the call to the user.
func finish(x *rpc.Exchange, err error) {
	x.Err = err
	if x.Done != nil {
		x.Done(x)
	}
}

// renewable reports whether the call may succeed under a new context (RFC 2203 §5.3.3.3).
func renewable(err error) bool {
	var re *rpc.ReplyError
	return errors.As(err, &re) && re.Denied && (re.Auth == rpc.GSSCredProblem || re.Auth == rpc.GSSCtxProblem)
}

// judge verifies an accepted reply (RFC 2203 §5.3.3.2), removes the protection from its results,
// and returns the error of the call. A reply with MSG_DENIED has no verifier.
func (e *call) judge(y *rpc.Exchange) error {
	var re *rpc.ReplyError
	refused := errors.As(y.Err, &re)
	if y.Err != nil && (!refused || re.Denied) {
		return y.Err
	}
	if y.Verf.Flavor != rpc.AuthGSS || !e.verifyNumber(y.Verf.Body) {
		return fmt.Errorf("%w: its verifier is wrong", ErrReply)
	}
	if refused || e.service == rpc.GSSNone {
		return y.Err
	}
	body := y.Results.Rest()
	from, to, ok := e.unwrap(body)
	if !ok {
		return fmt.Errorf("%w: the protection of its results does not come off", ErrReply)
	}
	y.Results.Reset(body[from:to], 0, nil)
	return nil
}

// callList is a queue of calls.
type callList = queue.List[call, *call]
