package nfs40

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Limits of callbacks.
const (
	// dialTime is the time limit for making a TCP connection. callTime is the time limit for a
	// whole callback, with its connection.
	dialTime = 5 * time.Second
	callTime = 10 * time.Second
	// farewellTime is the time limit for telling a client that the connection's context of
	// RPCSEC_GSS is no longer needed.
	farewellTime = time.Second
	// probes is the number of times that Probe calls a client that ends the connection instead of answering, and
	// probePause the time between two calls.
	probes     = 4
	probePause = 2 * time.Second
)

// Errors of callbacks. A callback may also fail with an error of the connection or *rpc.ReplyError.
var (
	// ErrNoAddress: the client gave no address for callbacks, or the address of another machine.
	ErrNoAddress = errors.New("nfs40: the client has no address for callbacks")
	errTooMany   = errors.New("nfs40: there are too many connections for callbacks")
	errGone      = errors.New("nfs40: the client is gone")
)

// A Channel makes callbacks to one client, each over a connection of its own. The only callback is the
// CB_NULL of Probe, because the server grants no delegations.
type Channel struct {
	dialer *dialer
	cred   rpc.AuthBytes
	// protect, if set, protects the calls to a client whose SETCLIENTID used RPCSEC_GSS.
	protect Protect
	// up is true if the latest call reached the client. probing is true while a goroutine of Probe runs.
	up, probing atomic.Bool

	// mu guards the fields below. end ends valid when the target changes or the client is gone. valid is no
	// child of the dialer's context, which would hold it for ever if nothing calls end: a SETCLIENTID that
	// makes no new client drops its Channel without close.
	mu     sync.Mutex
	target state.Callback
	valid  context.Context
	end    context.CancelFunc
}

func newChannel(d *dialer, cred rpc.AuthBytes, protect Protect) *Channel {
	ch := &Channel{dialer: d, cred: cred, protect: protect}
	ch.valid, ch.end = context.WithCancel(context.Background())
	return ch
}

// Up reports whether the latest call reached the client.
func (ch *Channel) Up() bool { return ch.up.Load() }

// Retarget sets the target of later calls. Up is false until a call has reached the new target.
func (ch *Channel) Retarget(t state.Callback) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.target != t && ch.valid.Err() == nil {
		ch.end()
		ch.target = t
		ch.valid, ch.end = context.WithCancel(context.Background())
		ch.up.Store(false)
	}
}

// close ends the channel: the client is gone.
func (ch *Channel) close() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.end()
	ch.up.Store(false)
}

// Probe finds out in the background whether the client can be reached. It does nothing if a
// probe is running. Linux's client ends the connection if its rpc.svcgssd has not accepted a context in time, and
// expects the server to come again, so Probe does that.
func (ch *Channel) Probe() {
	if ch.probing.CompareAndSwap(false, true) {
		go func() {
			defer ch.probing.Store(false)
			for range probes {
				if err := ch.Null(ch.dialer.ctx); !errors.Is(err, rpc.ErrCallLost) {
					return
				}
				select {
				case <-ch.dialer.ctx.Done():
					return
				case <-time.After(probePause):
				}
			}
		}()
	}
}

// Null is CB_NULL: it checks that the client can be reached, within callTime. Only Probe calls it, so that a
// client has at most one connection.
func (ch *Channel) Null(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ch.mu.Lock()
	target, valid := ch.target, ch.valid
	ch.mu.Unlock()
	if valid.Err() != nil {
		return errGone
	}
	defer context.AfterFunc(valid, cancel)()
	defer context.AfterFunc(ch.dialer.ctx, cancel)()
	err := ch.dialer.null(ctx, &target, ch.cred, ch.protect)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if valid.Err() == nil {
		ch.up.Store(err == nil)
	}
	return err
}
