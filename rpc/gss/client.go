package gss

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// ErrReply means that a reply did not come from the server, or was changed in transit. The server
// may or may not have executed the call.
var ErrReply = errors.New("gss: reply cannot be verified")

// ErrRefused means that the server did not accept the initiator's token. The error that wraps it
// also wraps the server's *Error.
var ErrRefused = errors.New("gss: the server refused the context")

// ErrClosed means that the Client was closed.
var ErrClosed = errors.New("gss: client closed")

// ErrEnded means that the context of a Back has ended.
var ErrEnded = errors.New("gss: the context has ended")

// ClientConfig configures a Client.
type ClientConfig struct {
	// Mechanism makes the contexts. Target is the server's name, such as "nfs@server.example.com"
	// or "nfs/server.example.com@EXAMPLE.COM".
	Mechanism Mechanism
	Target    string
	// Service is the protection of the calls.
	Service rpc.GSSService
	// Program and Version are the program and version of the NULL calls that carry the tokens.
	Program, Version uint32
	// Timeout is the longest time that the Client takes to replace its context by a new one
	// (default 30 s). Close waits for the server's answer for the same time, but not longer than
	// two seconds.
	Timeout time.Duration
}

// destroyTime is the longest time that Close waits for the server's answer to RPCSEC_GSS_DESTROY.
// It is short because nothing depends on that answer.
const destroyTime = 2 * time.Second

// maxUnderWay is the largest number of outstanding calls of a Client, even if the server's window
// is larger. Further calls wait.
const maxUnderWay = 1024

// A Client makes calls under RPCSEC_GSS on another Caller. If the server no longer knows its
// context, the Client makes a new one and repeats the call once. The Client replaces Exchange.Cred
// and Exchange.Sign. If the service is not GSSNone, no result is placed in Sinks: read all results
// from Results. A Client implements rpc.Client. Close does not close the underlying Caller; close
// that after the Client.
type Client struct {
	k   rpc.Caller
	cfg ClientConfig
	// The field ends is the context.Context for making new security contexts. Close calls the
	// function end, which cancels it.
	ends context.Context
	end  context.CancelCauseFunc
	// work counts the outstanding calls and the goroutine of renewLocked.
	work sync.WaitGroup

	// fixed is true if ctx is never replaced by a new context.
	fixed bool

	mu  sync.Mutex
	ctx *clientContext
	// renewing is true while a new context is being made.
	renewing bool
	// waiting are the calls that wait for a context or for the window, in the order of Start.
	waiting callList
	// sent are the outstanding calls.
	sent   callList
	closed bool
}

// NewClient makes a context with the server at the other end of k, and returns a Client that uses
// it.
func NewClient(ctx context.Context, k rpc.Caller, cfg ClientConfig) (*Client, error) {
	p, err := Prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return p.Client(ctx, k)
}

// Prepared has everything that a new context needs from other machines, such as a ticket.
type Prepared struct {
	cfg ClientConfig
	by  Initiator
}

// Prepare gets everything that a new context needs from other machines, such as a ticket. It needs
// no connection to the server. It waits for the other machines until ctx ends.
func Prepare(ctx context.Context, cfg ClientConfig) (*Prepared, error) {
	if !goodService(cfg.Service) {
		return nil, errors.New("gss: no such service")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	by, err := cfg.Mechanism.Initiate(ctx, cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("gss: context with %s: %w", cfg.Target, err)
	}
	return &Prepared{cfg: cfg, by: by}, nil
}

// Client makes a context with the server at the other end of k, and returns a Client that uses it.
// Call it at most once, because an Initiator makes only one context.
func (p *Prepared) Client(ctx context.Context, k rpc.Caller) (*Client, error) {
	made, err := p.make(ctx, k)
	if err != nil {
		return nil, err
	}
	c := &Client{k: k, cfg: p.cfg, ctx: made}
	c.ends, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return c, nil
}

// make makes a context with the server at the other end of k.
func (p *Prepared) make(ctx context.Context, k rpc.Caller) (*clientContext, error) {
	i := initiation{k: k, program: p.cfg.Program, version: p.cfg.Version}
	made, err := i.initiate(ctx, p.by)
	if err != nil {
		return nil, fmt.Errorf("gss: context with %s: %w", p.cfg.Target, err)
	}
	return made, nil
}

// Context returns the current context. If it has ended, the Client replaces it as soon as the user
// makes another call.
func (c *Client) Context() Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx.ctx
}

// Handle returns the server's handle of the current context. Do not change it.
func (c *Client) Handle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx.handle
}

// Start implements rpc.Caller.
func (c *Client) Start(x *rpc.Exchange) {
	e := newCall(c, x)
	var over error
	c.mu.Lock()
	switch {
	case c.closed:
		over = ErrClosed
	case c.fixed && !c.ctx.usable(time.Now()):
		over = ErrEnded
	}
	if over != nil {
		c.mu.Unlock()
		finish(x, over)
		return
	}
	x.Transport = e
	e.waits = true
	c.waiting.Add(e)
	c.mu.Unlock()
	c.pump()
}

// pump sends waiting calls until there are none, or the context or its window allows no more.
func (c *Client) pump() {
	for {
		c.mu.Lock()
		e := c.nextLocked()
		if e == nil {
			c.mu.Unlock()
			return
		}
		again := e.again
		c.mu.Unlock()
		c.k.Start(&e.inner)
		c.mu.Lock()
		var gaveUp error
		if e.again == again { // otherwise the server has refused this sending, and another goroutine sends e again
			e.started, gaveUp = true, e.cancelled
		}
		c.mu.Unlock()
		if gaveUp != nil {
			c.k.Cancel(&e.inner, gaveUp)
		}
	}
}

// nextLocked removes the first waiting call from the queue, and returns it to be sent. It returns
// nil if no call can be sent now.
func (c *Client) nextLocked() *call {
	if c.waiting.First == nil || c.closed || c.renewing || c.sent.Len >= c.ctx.window {
		return nil
	}
	if !c.fixed && !c.ctx.usable(time.Now()) {
		c.renewLocked()
		return nil
	}
	e := c.waiting.First
	c.waiting.Remove(e)
	e.waits, e.under = false, c.ctx
	c.sent.Add(e)
	c.work.Add(1)
	return e
}

// renewLocked makes a new context, in the background.
func (c *Client) renewLocked() {
	c.renewing = true
	c.work.Go(func() {
		ctx, cancel := context.WithTimeout(c.ends, c.cfg.Timeout)
		defer cancel()
		p, err := Prepare(ctx, c.cfg)
		var made *clientContext
		if err == nil {
			made, err = p.make(ctx, c.k)
		}
		c.mu.Lock()
		c.renewing = false
		var failed []*call
		if err != nil {
			failed = callsOf(c.waiting)
			for _, e := range failed {
				c.unqueueLocked(e)
			}
		} else {
			c.ctx = made
		}
		c.mu.Unlock()
		for _, e := range failed {
			finish(e.x, err)
		}
		c.pump()
	})
}

// callsOf returns the calls of some lists.
func callsOf(lists ...callList) (all []*call) {
	for _, l := range lists {
		for e := l.First; e != nil; e = e.Next {
			all = append(all, e)
		}
	}
	return all
}

// again queues e a second time, because the server has refused its context with the error refusal
// (renewable). If the Client still uses that context, it first makes a new one. If e may not be
// repeated, again returns the error of e: that of Cancel, or refusal if e was repeated before, or if
// the Client is closed or never replaces its context.
func (c *Client) again(e *call, refusal error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.cancelled != nil:
		return e.cancelled
	case e.again || c.closed || c.fixed:
		return refusal
	}
	e.again, e.waits, e.started = true, true, false
	c.sent.Remove(e)
	c.waiting.Push(e)
	if e.under == c.ctx && !c.renewing {
		c.renewLocked()
	}
	c.work.Done()
	return nil
}

// ended removes a call whose reply has come, or will not come, from the outstanding calls.
func (c *Client) ended(e *call) {
	c.mu.Lock()
	e.x.Transport = nil
	c.sent.Remove(e)
	c.mu.Unlock()
	c.work.Done()
}

// Cancel implements rpc.Caller.
func (c *Client) Cancel(x *rpc.Exchange, err error) {
	c.mu.Lock()
	e, _ := x.Transport.(*call)
	c.mu.Unlock()
	if e != nil {
		c.cancel(e, err)
	}
}

// cancel ends a call with err. It does nothing if the call is done.
func (c *Client) cancel(e *call, err error) {
	c.mu.Lock()
	if e.waits {
		c.unqueueLocked(e)
		c.mu.Unlock()
		finish(e.x, err)
		return
	}
	e.cancelled = err
	started := e.started
	c.mu.Unlock()
	if started {
		c.k.Cancel(&e.inner, err)
	}
}

// unqueueLocked removes a waiting call that is not sent. The caller then calls finish.
func (c *Client) unqueueLocked(e *call) {
	c.waiting.Remove(e)
	e.waits, e.x.Transport = false, nil
}

// Close cancels all waiting and outstanding calls, waits until they are done, and asks the server
// to delete the context. It waits at most two seconds for the server's answer.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	all := callsOf(c.waiting, c.sent)
	c.mu.Unlock()
	c.end(ErrClosed)
	for _, e := range all {
		c.cancel(e, ErrClosed)
	}
	c.work.Wait()
	c.destroy()
}

// destroy tells the server that the context is no longer needed (RFC 2203 §5.4). If the call does
// not reach the server, the server keeps the context until it expires, or until the server deletes
// it as unused.
func (c *Client) destroy() {
	ctx, cancel := context.WithTimeout(context.Background(), min(c.cfg.Timeout, destroyTime))
	defer cancel()
	e := &call{client: c, under: c.ctx, proc: procDestroy}
	e.service = rpc.GSSNone
	x := rpc.Exchange{
		Program: c.cfg.Program, Version: c.cfg.Version, Procedure: nullProcedure, Sign: e.authenticate,
	}
	_ = rpc.Do(ctx, c.k, &x, nil)
}
