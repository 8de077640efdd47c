package nfs40

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Limits of connections for callbacks.
const (
	// maxConnections is how many there are at once.
	maxConnections = 256
	// dialTime is how long one may take to be made, and callTime a callback to be
	// answered.
	dialTime = 5 * time.Second
	callTime = 10 * time.Second
	// idleTime is how long one is kept that nothing is sent over.
	idleTime = 15 * time.Second
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
	// slots has an element for each connection.
	slots chan struct{}
	// work counts goroutines and connections. ending: there are to be no more.
	mu     sync.Mutex
	ending bool
	work   sync.WaitGroup
}

func newDialer(dial rpc.Dialer) *dialer {
	d := &dialer{dial: dial, slots: make(chan struct{}, maxConnections)}
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

// end gives up on all that is under way, and waits for its end.
func (d *dialer) end() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.stop()
	d.work.Wait()
}

// A connection is one for callbacks. It is closed when nobody has used it for a while.
type connection struct {
	dialer *dialer
	client rpc.Client
	to     netip.AddrPort
	users  int
	idle   *time.Timer
	// over: it is closed when its last user is done.
	over bool
	// unwatch forgets what closes it when the dialer ends.
	unwatch func() bool
}

// connect makes a connection with one user.
func (d *dialer) connect(ctx context.Context, to netip.AddrPort) (*connection, error) {
	if !d.begin() {
		return nil, errGone
	}
	select {
	case d.slots <- struct{}{}:
	default:
		d.work.Done()
		return nil, errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := d.dial(ctx, "tcp", to.String())
	if err != nil {
		<-d.slots
		d.work.Done()
		return nil, err
	}
	return &connection{dialer: d, client: c, to: to, users: 1}, nil
}

// end closes a connection that nobody uses; nil is none.
func (c *connection) end() {
	if c == nil {
		return
	}
	c.unwatch()
	c.client.Close()
	<-c.dialer.slots
	c.dialer.work.Done()
}
