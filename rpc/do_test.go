package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A lateCaller ends a cancelled call only when end is closed, like a transport that first has to take
// memory back from its peer.
type lateCaller struct {
	rpc.Caller
	end chan struct{}
}

func (*lateCaller) Start(*rpc.Exchange) {}

func (l *lateCaller) Cancel(x *rpc.Exchange, err error) {
	go func() {
		<-l.end
		x.Err = err
		x.Done(x)
	}()
}

// Do returns when the call has ended, not when its context ends: until then the transport uses the
// caller's memory.
func TestDoWaitsForTheEndOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, returned := &lateCaller{end: make(chan struct{})}, make(chan error, 1)
		go func() { returned <- rpc.Do(ctx, l, new(rpc.Exchange), nil) }()
		cancel()
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("Do has returned, and the call has not ended")
		}
		close(l.end)
		if err := <-returned; err != context.Canceled {
			t.Error(err)
		}
	})
}
