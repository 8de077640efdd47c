package gss_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

var errEnough = errors.New("enough")

// A hooked Caller calls start for each call under a context, with the number of the call, instead of
// passing it on. It calls cancel for each Cancel.
type hooked struct {
	rpc.Caller
	calls  atomic.Int32
	start  func(n int32, x *rpc.Exchange)
	cancel func(x *rpc.Exchange, err error)
}

func (h *hooked) Start(x *rpc.Exchange) {
	if x.Sign == nil || h.start == nil {
		h.Caller.Start(x) // it makes or destroys a context
		return
	}
	h.start(h.calls.Add(1), x)
}

func (h *hooked) Cancel(x *rpc.Exchange, err error) {
	if h.cancel != nil {
		h.cancel(x, err)
	}
}

// startBump starts a BUMP on k. Its error comes from the channel.
func startBump(k rpc.Caller) (*rpc.Exchange, <-chan error) {
	done := make(chan error, 1)
	x := rpctest.NewExchange(rpctest.BUMP, put(tag))
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	k.Start(x)
	return x, done
}

// A call is sent again while the underlying Start of the first sending has not returned. The first
// sending returns while the second one is in Start: a Cancel at that time ends the call.
func TestCancelWhileACallIsSentAgain(t *testing.T) {
	s := newSite(t, gss.Config{})
	h := &hooked{Caller: s.wire()}
	k := s.client(h, rpc.GSSNone)
	again, resume := make(chan struct{}), make(chan struct{})
	var sent atomic.Bool // the second sending
	h.start = func(n int32, x *rpc.Exchange) {
		if n == 1 {
			h.Caller.Start(x)
			<-again
			return
		}
		close(again)
		<-resume
		sent.Store(true)
	}
	h.cancel = func(x *rpc.Exchange, err error) {
		if sent.Load() {
			x.Err = err
			x.Done(x)
		}
	}
	s.gss.Forget()
	x, done := startBump(k)
	h.start = nil // calls after this one destroy the context
	k.Cancel(x, errEnough)
	close(resume)
	if err := await.Receive(t, "the call ends", done); err != errEnough {
		t.Error(err)
	}
}

// If the server has refused the context of a call when its user cancels it, the call is not sent
// again.
func TestCancelledCallIsNotSentAgain(t *testing.T) {
	s := newSite(t, gss.Config{})
	h := &hooked{Caller: s.wire()}
	k := s.client(h, rpc.GSSNone)
	h.start = func(n int32, x *rpc.Exchange) {
		if n > 1 {
			h.Caller.Start(x)
		}
	}
	h.cancel = func(x *rpc.Exchange, _ error) { h.Caller.Start(x) } // the refusal comes first
	s.gss.Forget()
	x, done := startBump(k)
	k.Cancel(x, errEnough)
	if err := await.Receive(t, "the call ends", done); err != errEnough {
		t.Error(err)
	}
	if n := s.program.Served[rpctest.BUMP].Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
}

// A call whose context the server refuses while the calls that waited for a new context fail makes
// the Client try again to make one.
func TestRefusalWhileRenewalFails(t *testing.T) {
	s := newSite(t, gss.Config{})
	h := &hooked{Caller: s.wire()}
	k := s.client(h, rpc.GSSNone)
	gone := errors.New("the KDC does not answer")
	var attempts atomic.Int32
	s.mech.Unreachable = func(context.Context) error {
		if attempts.Add(1) == 1 {
			return gone
		}
		return nil
	}
	var held *rpc.Exchange
	refused := make(chan struct{})
	h.start = func(n int32, x *rpc.Exchange) {
		if n > 1 {
			h.Caller.Start(x)
			return
		}
		held = x
		done, once := x.Done, sync.OnceFunc(func() { close(refused) })
		x.Done = func(x *rpc.Exchange) {
			done(x)
			once()
		}
	}
	s.gss.Forget()
	_, done := startBump(k)
	failed := make(chan error, 1)
	x := rpctest.NewExchange(rpctest.BUMP, put(tag))
	x.Done = func(x *rpc.Exchange) {
		h.Caller.Start(held)
		<-refused
		failed <- x.Err
	}
	k.Start(x)
	if err := await.Receive(t, "the call that waited ends", failed); !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := await.Receive(t, "the refused call ends", done); err != nil {
		t.Error(err)
	}
}
