package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// RelayConfig says between whom calls are carried.
type RelayConfig struct {
	// Target is the server; its Cred does not count, as every call keeps its
	// own. Each client's connection has one to the server.
	Target Target
	// MountPort is where the server's MOUNT service listens on TCP; 0: find
	// it (Conn.DialMount).
	MountPort int
	// Port is where clients find the relay, for those who ask rpcbind.
	Port int
	// Clients is how many connections there may be (1000); what comes beyond
	// is closed at once.
	Clients int
	// Calls is how many calls of a client are under way at a time (128), and
	// Memory how many bytes all calls may take together (256 MiB).
	Calls  int
	Memory int64
	// MaxReply is the largest reply to a procedure that the binding does not
	// know, in bytes (1 MiB and 64 KiB): each such call offers that much.
	MaxReply int
	// Timeout bounds connecting to the server, how long a client may stop in
	// the middle of a call or not read its replies, and how long the calls of
	// one that has left are waited for (30 s).
	Timeout time.Duration
	// Event, where set, is told of connections that came and why they ended.
	Event func(RelayEvent)
}

// A RelayEvent is the end of a client's connection.
type RelayEvent struct {
	Client string
	Calls  int64
	Err    error // nil when the client closed it
}

func (c RelayConfig) withDefaults() RelayConfig {
	if c.Clients <= 0 {
		c.Clients = 1000
	}
	if c.Calls <= 0 {
		c.Calls = 128
	}
	if c.Memory <= 0 {
		c.Memory = 256 << 20
	}
	if c.MaxReply <= 0 {
		c.MaxReply = 1<<20 + 64<<10
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	c.Target.Depth = max(c.Target.Depth, c.Calls)
	c.Target.Reconnect = true
	// One call of the largest kind must fit.
	c.Memory = max(c.Memory, int64(2*maxRelayRecord+c.MaxReply))
	return c
}

// A Relay takes RPC calls over TCP (RFC 5531 §11) and carries them to a server by
// the Target's transport, many at a time and answered in the order of the
// server's replies. Calls of MOUNT go to the server's MOUNT service, questions to
// rpcbind are answered with the relay itself.
//
// RPCSEC_GSS cannot be relayed, as it protects the XID of a call, and every
// connection has its own: such calls are refused with AUTH_REJECTEDCRED. A client
// that sends a call again on a new connection makes a new call of it.
type Relay struct {
	cfg    RelayConfig
	memory *semaphore.Weighted
	life   context.Context
	end    context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	closed    bool
	conns     sync.WaitGroup
	open      atomic.Int64
}

// ErrRelayClosed is what Serve returns after Close.
var ErrRelayClosed = errors.New("client: relay closed")

// NewRelay makes a relay. It connects to the server when clients come.
func NewRelay(cfg RelayConfig) *Relay {
	cfg = cfg.withDefaults()
	r := &Relay{cfg: cfg, memory: semaphore.NewWeighted(cfg.Memory), listeners: make(map[net.Listener]struct{})}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Check connects to the server once, to tell early what is wrong.
func (r *Relay) Check(ctx context.Context) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

func (r *Relay) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return Dial(ctx, r.cfg.Target)
}

// Serve takes connections until Close. It may be called for several listeners.
func (r *Relay) Serve(l net.Listener) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		l.Close()
		return ErrRelayClosed
	}
	r.listeners[l] = struct{}{}
	r.mu.Unlock()
	pause := 5 * time.Millisecond
	for {
		c, err := l.Accept()
		if err != nil {
			if r.life.Err() != nil {
				return ErrRelayClosed
			}
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return err
			}
			// Out of descriptors: it gets better when somebody leaves.
			select {
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
			case <-r.life.Done():
			}
			continue
		}
		pause = 5 * time.Millisecond
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			c.Close()
			return ErrRelayClosed
		}
		if r.open.Load() >= int64(r.cfg.Clients) {
			r.mu.Unlock()
			c.Close()
			continue
		}
		r.open.Add(1)
		r.conns.Add(1)
		r.mu.Unlock()
		go func() {
			defer r.conns.Done()
			defer r.open.Add(-1)
			newRelayConn(r, c).run()
		}()
	}
}

// Clients is how many are connected.
func (r *Relay) Clients() int64 { return r.open.Load() }

// Close ends all connections and listeners, and returns when nothing of the relay
// runs any more.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.end()
	for l := range r.listeners {
		l.Close()
	}
	r.mu.Unlock()
	r.conns.Wait()
}
