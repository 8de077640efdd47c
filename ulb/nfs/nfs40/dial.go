package nfs40

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Limits of connections for callbacks.
const (
	// usualConnections is Config.Connections where that is 0.
	usualConnections = 256
	// dialTime is how long one may take to be made, and callTime a callback to be
	// answered.
	dialTime = 5 * time.Second
	callTime = 10 * time.Second
	// idleTime is how long one is kept that nothing is sent over.
	idleTime = 15 * time.Second
	// farewellTime is how long a client may take to hear that the context of RPCSEC_GSS
	// of a connection is not needed any more.
	farewellTime = time.Second
)

// Errors of callbacks, besides those of connections and *rpc.ReplyError.
var (
	// ErrNoAddress: the client named no address that is its own.
	ErrNoAddress = errors.New("nfs40: the client has no address for callbacks")
	errTooMany   = errors.New("nfs40: there are too many connections for callbacks")
	errGone      = errors.New("nfs40: the client is gone")
)

// A dialer makes the connections for callbacks, and ends with all of them.
type dialer struct {
	dial rpc.Dialer
	ctx  context.Context
	stop context.CancelFunc
	// most is how many connections there are at once.
	most int
	// work counts goroutines and connections. ending: there are to be no more.
	mu     sync.Mutex
	ending bool
	work   sync.WaitGroup
	// taken are the connections that there are, by the addresses that they are counted
	// under, and all is how many.
	taken map[netip.Addr]int
	all   int
}

func newDialer(dial rpc.Dialer, most int) *dialer {
	if most == 0 {
		most = usualConnections
	}
	d := &dialer{dial: dial, most: most, taken: make(map[netip.Addr]int)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// begin counts work that end waits for; false: there is to be no more. Each begin that
// is true is followed by a work.Done.
func (d *dialer) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.work.Add(1)
	return true
}

// take counts a connection to an address; false: there are too many, or the address has as
// many as are left for others. Each take that is true is followed by a give.
func (d *dialer) take(to netip.Addr) bool {
	to = census.Client(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.most - d.all; left == 0 || d.taken[to] > 0 && d.taken[to] >= left {
		return false
	}
	d.taken[to]++
	d.all++
	return true
}

// give lets another connection take the place of one to an address.
func (d *dialer) give(to netip.Addr) {
	to = census.Client(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.taken[to]--; d.taken[to] == 0 {
		delete(d.taken, to)
	}
}

// end gives up on all that is under way, and waits for its end.
func (d *dialer) end() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.stop()
	d.work.Wait()
}

// A connection is one for callbacks. It is closed when it was not used for a while.
type connection struct {
	dialer *dialer
	to     netip.Addr
	client rpc.Client
	// protected is what calls on client are made by; nil: that itself.
	protected rpc.Client
	users     int
	idle      *time.Timer
	// over: it is closed when its last user is done.
	over bool
	// unwatch forgets what closes it when the dialer ends.
	unwatch func() bool
}

// connect makes a connection with one user. What protects it is got first: while others
// are waited for there is no socket.
func (d *dialer) connect(ctx context.Context, t *Target, protect Protect) (*connection, error) {
	if !d.begin() {
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
	if !d.take(t.Address.Addr()) {
		d.work.Done()
		return nil, errTooMany
	}
	c := &connection{dialer: d, to: t.Address.Addr(), users: 1}
	if err := c.open(ctx, t, start); err != nil {
		c.gone()
		return nil, err
	}
	return c, nil
}

// open connects, and has calls protected where start is set.
func (c *connection) open(ctx context.Context, t *Target, start func(context.Context, rpc.Caller) (rpc.Client, error)) (err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if c.client, err = c.dialer.dial(dialing, "tcp", t.Address.String()); err != nil || start == nil {
		return err
	}
	if c.protected, err = start(ctx, c.client); err != nil {
		c.client.Close()
	}
	return err
}

// caller is what calls are made by.
func (c *connection) caller() rpc.Caller {
	if c.protected != nil {
		return c.protected
	}
	return c.client
}

// end closes a connection that is not in use; nil is none. It does not wait for the client,
// which is told where the connection was protected.
func (c *connection) end() {
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

// gone lets another connection take its place.
func (c *connection) gone() {
	c.dialer.give(c.to)
	c.dialer.work.Done()
}
