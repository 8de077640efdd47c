package nfs40

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Limits of connections for callbacks.
const (
	// dialTime is the time limit for making a TCP connection. callTime is the time limit for a
	// whole callback, with the connection if it needs one.
	dialTime = 5 * time.Second
	callTime = 10 * time.Second
	// idleTime is how long an unused connection is kept.
	idleTime = 15 * time.Second
	// farewellTime is the time limit for telling a client that the connection's context of
	// RPCSEC_GSS is no longer needed.
	farewellTime = time.Second
)

// Errors of callbacks. A callback may also fail with an error of the connection or
// *rpc.ReplyError.
var (
	// ErrNoAddress: the client gave no address for callbacks, or the address of another machine.
	ErrNoAddress = errors.New("nfs40: the client has no address for callbacks")
	errTooMany   = errors.New("nfs40: there are too many connections for callbacks")
	errGone      = errors.New("nfs40: the client is gone")
)

// A dialer makes the connections for callbacks. Its method stopAndWait closes all of them.
type dialer struct {
	dial rpc.Dialer
	ctx  context.Context
	stop context.CancelFunc
	// most is the maximum number of connections at once.
	most int
	// mu guards ending, taken and all. work counts goroutines and connections. While ending is
	// true, no more of them may begin.
	mu     sync.Mutex
	ending bool
	work   sync.WaitGroup
	// taken counts the connections by client address (see clientaddr.Of). all is their total.
	taken map[netip.Addr]int
	all   int
}

func newDialer(dial rpc.Dialer, most int) *dialer {
	d := &dialer{dial: dial, most: cmp.Or(most, 256), taken: make(map[netip.Addr]int)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// addWork counts one goroutine or connection in work, so that stopAndWait waits for it. It returns
// false if stopAndWait was called already. If it returns true, work.Done must be called when the
// goroutine or connection has ended.
func (d *dialer) addWork() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.work.Add(1)
	return true
}

// countConnection counts a connection to an address. It returns false if there are too many
// connections, or if the address already has as many connections as may still be made to all
// addresses. If countConnection returns true, the caller later calls give.
func (d *dialer) countConnection(to netip.Addr) bool {
	to = clientaddr.Of(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.most - d.all; left == 0 || d.taken[to] > 0 && d.taken[to] >= left {
		return false
	}
	d.taken[to]++
	d.all++
	return true
}

// give subtracts a connection that countConnection counted.
func (d *dialer) give(to netip.Addr) {
	to = clientaddr.Of(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.taken[to]--; d.taken[to] == 0 {
		delete(d.taken, to)
	}
}

// stopAndWait cancels all callbacks, closes all connections, and waits until that is done.
func (d *dialer) stopAndWait() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.stop()
	d.work.Wait()
}

// A connection carries callbacks to one client. Its Channel closes it after idleTime without use.
type connection struct {
	dialer *dialer
	to     netip.Addr
	client rpc.Client
	// protected makes protected calls over client. If it is nil, calls go over client itself.
	protected rpc.Client
	users     int
	idle      *time.Timer
	// over is true if no further call may use the connection. Its last user closes it.
	over bool
	// unwatch cancels the function that closes the connection when the dialer ends.
	unwatch func() bool
}

// connect makes a connection and counts its caller as the first user. It prepares the protection
// first, so that no socket is open while connect waits for other servers, such as a Kerberos
// server.
func (d *dialer) connect(ctx context.Context, t *state.Callback, protect Protect) (*connection, error) {
	if !d.addWork() {
		return nil, errGone
	}
	var start func(context.Context, rpc.Caller) (rpc.Client, error)
	if protect != nil {
		var err error
		if start, err = protect(ctx, t.Program, wire.CallbackVersion); err != nil {
			d.work.Done()
			return nil, err
		}
	}
	if !d.countConnection(t.Dial.Addr()) {
		d.work.Done()
		return nil, errTooMany
	}
	c := &connection{dialer: d, to: t.Dial.Addr(), users: 1}
	if err := c.open(ctx, t, start); err != nil {
		c.gone()
		return nil, err
	}
	return c, nil
}

// open connects to the client. If start is not nil, open then calls it to make c.protected.
func (c *connection) open(ctx context.Context, t *state.Callback, start func(context.Context, rpc.Caller) (rpc.Client, error)) (err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if c.client, err = c.dialer.dial(dialing, "tcp", t.Dial.String()); err != nil || start == nil {
		return err
	}
	if c.protected, err = start(ctx, c.client); err != nil {
		c.client.Close()
	}
	return err
}

// caller returns the Caller for calls over the connection: protected, if there is one.
func (c *connection) caller() rpc.Caller {
	if c.protected != nil {
		return c.protected
	}
	return c.client
}

// closeIdle closes a connection that is not in use; c may be nil. It does not wait for the client.
// If the connection is protected, a goroutine first tells the client that the RPCSEC_GSS context
// ends.
func (c *connection) closeIdle() {
	if c == nil {
		return
	}
	c.unwatch()
	if c.protected == nil {
		c.client.Close()
		c.gone()
		return
	}
	go func() {
		cut := sync.OnceFunc(c.client.Close)
		late := time.AfterFunc(farewellTime, cut)
		stop := context.AfterFunc(c.dialer.ctx, cut)
		c.protected.Close()
		late.Stop()
		stop()
		cut()
		c.gone()
	}()
}

// gone subtracts the connection from the counts of its dialer.
func (c *connection) gone() {
	c.dialer.give(c.to)
	c.dialer.work.Done()
}
