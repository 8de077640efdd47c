package gss

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// maxOverhead is the most that protection adds to arguments or results, in bytes.
const maxOverhead = 1024

// bound is how much protection adds to arguments or results at most, in bytes. It is
// exact where the context stays the same.
func (e *call) bound() int {
	if !e.client.fixed {
		return maxOverhead
	}
	e.set(e.client.ctx.ctx, e.service, 0)
	o := e.overhead()
	return o.Before + o.Behind
}

// A call is one call of a Client: what its user asked for, and what is sent for
// that.
type call struct {
	protector
	client *Client
	x      *rpc.Exchange
	inner  rpc.Exchange
	under  *clientContext
	proc   procedure

	// Guarded by the Client's lock.
	queue.Links[call]
	again bool // it was sent once more
	waits bool // on Client.waiting
	// started: the Caller beneath has it. Until then cancelled is why its user gave
	// up on it.
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
	// Nothing travels beside the message (RFC 8166 §8.2.2).
	more := e.bound()
	y.Args, y.MaxArgs = e.args, x.MaxArgs+more
	if n, known := e.largestResults(); known {
		y.MaxResults = n + more
	}
	return e
}

// largestResults is how large the results may get, in bytes, all in the message;
// known is false where the user says that they fit a reply without chunks.
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

// shapeOfResults asks the binding, which needs the arguments.
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

// authenticate writes credential and verifier, under a new sequence number: each
// transmission has its own (RFC 2203 §5.3.3.1).
func (e *call) authenticate(_ *rpc.Exchange, w *xdr.Writer) {
	e.set(e.under.ctx, e.service, e.under.seq.Add(1))
	c := credential{proc: e.proc, seq: e.seq, service: e.service, handle: e.under.handle}
	c.put(w)
	if w.Overflow() || !e.putVerifier(w, w.Bytes()) {
		w.Fail()
	}
}

// args writes the arguments and puts the protection on them.
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
		ownPayloads(w)
	}
	if !e.wrap(w, from) {
		w.Fail()
	}
}

// ownPayloads copies the payloads of w: they are the user's, and are encrypted.
func ownPayloads(w *xdr.Writer) {
	all := w.Payloads()
	for i := range all {
		p := &all[i]
		p.Data = append([]byte(nil), p.Data...)
		if p.Ref != nil {
			p.Ref.Release()
			p.Ref = nil
		}
	}
}

// done is the end of the inner exchange.
func (e *call) done(y *rpc.Exchange) {
	c, x := e.client, e.x
	err := e.judge(y)
	if renewable(err) && c.again(e) {
		c.pump()
		return
	}
	x.XID, x.Results, x.Verf = y.XID, y.Results, y.Verf
	c.ended(e)
	finish(x, err)
	c.pump()
}

// finish tells the user.
func finish(x *rpc.Exchange, err error) {
	x.Err = err
	if x.Done != nil {
		x.Done(x)
	}
}

// renewable says whether another context helps (RFC 2203 §5.3.3.3).
func renewable(err error) bool {
	var re *rpc.ReplyError
	return errors.As(err, &re) && re.Denied && (re.Auth == rpc.GSSCredProblem || re.Auth == rpc.GSSCtxProblem)
}

// judge verifies an accepted reply (RFC 2203 §5.3.3.2), takes the protection off its
// results, and returns what became of the call. A denial carries no verifier.
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

// failAll ends the calls of a list that was taken.
func failAll(l callList, err error) {
	for e := l.First; e != nil; e = l.First {
		l.Remove(e)
		finish(e.x, err)
	}
}
