package tcp

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// DialConfig configures a Conn. The zero value is for a connection that only makes calls.
type DialConfig struct {
	// Dial opens the connection. nil means the DialContext of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RPC, if set, serves the calls that the peer makes on the same connection. It requires
	// Pool.
	RPC  *rpc.Server
	Pool *mem.Pool
	// MaxRecord is the longest reply accepted, in bytes (default 2 MiB).
	MaxRecord int
	// Stall is Config.Stall, for this connection.
	Stall time.Duration
}

// A Conn is a connection to a server. It implements rpc.Caller: it sends each call once,
// allows many calls at a time, and ends them with an error that wraps rpc.ErrCallLost if the connection ends
// before their replies come.
type Conn struct {
	c    *conn
	cfg  Config
	n    counters
	done chan struct{}
	err  error
	wg   sync.WaitGroup
}

// Dial connects to a TCP address and returns when the Conn may make calls.
func Dial(ctx context.Context, address string, cfg DialConfig) (*Conn, error) {
	return cfg.dial(ctx, "tcp", address)
}

// Dialer returns an rpc.Dialer for packages that call other servers but know no transport.
// It connects to networks "tcp" and "unix".
func (cfg DialConfig) Dialer() rpc.Dialer {
	return func(ctx context.Context, network, address string) (rpc.Client, error) {
		c, err := cfg.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

func (cfg DialConfig) dial(ctx context.Context, network, address string) (*Conn, error) {
	dial := cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return NewConn(nc, cfg), nil
}

// NewConn returns a Conn that makes its calls on nc.
func NewConn(nc net.Conn, cfg DialConfig) *Conn {
	if cfg.RPC != nil && cfg.Pool == nil {
		panic("tcp: to serve calls takes a Pool")
	}
	d := &Conn{
		cfg: Config{
			RPC: cfg.RPC, Pool: cfg.Pool, MaxRecord: cfg.MaxRecord, Stall: cfg.Stall,
		}.withDefaults(),
		done: make(chan struct{}),
	}
	server := cfg.RPC
	if server == nil {
		server = unserved()
	}
	peer := addrPort(nc.RemoteAddr())
	rc := server.NewConn(peer, addrPort(nc.LocalAddr()), "tcp", peer.Port() > 0 && peer.Port() < 1024)
	d.c = newConn(&d.cfg, &d.n, newStream(nc), cfg.RPC, rc)
	d.wg.Go(func() {
		_, d.err = d.c.run()
		close(d.done)
	})
	d.wg.Go(d.sweep)
	return d
}

// unserved returns an rpc.Server without programs. It makes the rpc.Conns of connections that serve
// no calls.
var unserved = sync.OnceValue(func() *rpc.Server { return rpc.NewServer(rpc.Config{}) })

func (d *Conn) sweep() {
	t := time.NewTicker(sweepEvery(&d.cfg))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			d.c.sweep(now)
		case <-d.done:
			return
		}
	}
}

// Start implements rpc.Caller.
func (d *Conn) Start(x *rpc.Exchange) { d.c.caller.Start(x) }

// Cancel implements rpc.Caller.
func (d *Conn) Cancel(x *rpc.Exchange, err error) { d.c.caller.Cancel(x, err) }

// RPC returns the rpc.Conn of the connection.
func (d *Conn) RPC() *rpc.Conn { return d.c.peer }

// Done returns a channel that is closed when the connection has ended. Err then returns the reason.
func (d *Conn) Done() <-chan struct{} { return d.done }

// Err returns the reason for the end of the connection. It is valid only after Done.
func (d *Conn) Err() error { return d.err }

// Close ends the connection and every call on it, and returns when both have ended. The function
// Done of an rpc.Exchange must not call it.
func (d *Conn) Close() {
	d.c.abort()
	d.wg.Wait()
}

var _ rpc.Client = (*Conn)(nil)
