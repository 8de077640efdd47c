// Package relay accepts RPC calls over TCP and carries them to an NFS server by another
// transport. Many calls may be in progress, and each is answered as soon as the server has
// answered it. Calls of MOUNT go to the server's MOUNT service. The relay answers calls of
// rpcbind itself, and names itself there.
//
// A Relay is an rpc.Fallback on transport/tcp: it serves calls of any program. Each call
// waits without a goroutine (rpc.Outcome.Pending) until the server's reply completes it.
// transport/tcp bounds connections, and the memory of calls and replies.
//
// RPCSEC_GSS cannot be relayed, because it protects the XID of a call, and each connection
// has XIDs of its own. So the relay refuses such calls with AUTH_REJECTEDCRED. For the same
// reason the relay answers a repeated call itself, with the reply to the first (rows).
//
// A Relay can protect the connection to the server: with Target.Security it makes the calls
// of NFS under that, all as its own principal, whatever credentials the clients send.
package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Config configures a Relay. A field that is 0 has the default that its comment names in
// parentheses.
type Config struct {
	// Target is the server. Its Cred is not used, because each call keeps its own.
	// Each client's connection has its own connection to the server. With Security the
	// callers' credentials do not count for NFS: each client that the relay serves acts as the
	// relay's principal. Only clients on privileged ports are served then, unless
	// Insecure is set.
	Target   client.Target
	Insecure bool
	// MountPort is where the server's MOUNT service listens on TCP; 0: find it
	// (client.Conn.DialMount).
	MountPort int
	// Port is the TCP port that the relay names to clients that ask rpcbind.
	Port int
	// Clients is the maximum number of clients' connections (1000).
	Clients int
	// Calls is the maximum number of a client's calls in progress (128). Memory is how many
	// bytes all calls may take together (256 MiB).
	Calls  int
	Memory int64
	// MaxReply bounds the result of a procedure that neither NFSv3's binding nor MOUNT's
	// knows, in bytes (1,088 KiB). The relay reserves this much for each such call.
	MaxReply int
	// Timeout bounds connecting to the server, how long a client may stop in the
	// middle of a call or not read its replies, and how long the calls of a client
	// that has closed its side may wait for their answers (30 s).
	Timeout time.Duration
	// Event, unless nil, is called at the end of each client's connection, from any
	// goroutine. It must not block.
	Event func(Event)
}

// An Event is the end of a client's connection.
type Event struct {
	Client netip.AddrPort
	// Calls is the number of the client's calls that the relay carried.
	Calls int64
	// Err is the reason for the end; nil if the client closed the connection.
	Err error
}

// maxRecord is the longest call that the relay accepts, in bytes.
const maxRecord = 4<<20 + 64<<10

func (c Config) withDefaults() Config {
	c.Clients = cmp.Or(max(c.Clients, 0), 1000)
	c.Calls = cmp.Or(max(c.Calls, 0), 128)
	c.Memory = cmp.Or(max(c.Memory, 0), 256<<20)
	c.MaxReply = cmp.Or(max(c.MaxReply, 0), 1<<20+64<<10)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 30*time.Second)
	c.Target.Depth = max(c.Target.Depth, c.Calls)
	c.Target.Reconnect = true
	// One client may have half of Memory, and a call of the largest kind must fit into
	// that.
	c.Memory = max(c.Memory, 4*(maxRecord+int64(c.MaxReply)))
	return c
}

// A Relay carries calls. Its methods may be called from any goroutine.
type Relay struct {
	cfg  Config
	pool *mem.Pool
	rpc  *rpc.Server
	tcp  *tcp.Server

	sessions sync.Map // *session by *rpc.Conn
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup // goroutines of the relay, beside those of tcp
}

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("relay: closed")

// New makes a relay, which runs until Close. It connects to the server when clients
// make calls. The error is that of reserving address space for Config.Memory.
func New(cfg Config) (*Relay, error) {
	r := &Relay{cfg: cfg.withDefaults()}
	var err error
	if r.pool, err = mem.NewPool(mem.Config{Ceiling: r.cfg.Memory}); err != nil {
		return nil, err
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.rpc = rpc.NewServer(rpc.Config{})
	r.rpc.Register(&rpcbind.Server{Services: services, Port: uint16(r.cfg.Port)})
	r.rpc.SetFallback(&program{r, newRows(r.cfg.MaxReply)})
	r.tcp = tcp.NewServer(tcp.Config{
		RPC: r.rpc, Pool: r.pool, MaxConns: r.cfg.Clients, MaxInFlight: r.cfg.Calls,
		MaxRecord: maxRecord, MaxReply: maxRecord + r.cfg.MaxReply, Gather: true,
		Stall: r.cfg.Timeout, Unanswered: r.cfg.Timeout, Event: r.event,
	})
	r.work.Go(r.keepHouse)
	return r, nil
}

// services are what the relay tells clients that ask rpcbind.
var services = []rpcbind.Service{
	{Program: nfs3wire.Program, Version: nfs3wire.Version},
	{Program: nfs3wire.Program, Version: 4},
	{Program: mount3wire.Program, Version: mount3wire.Version},
	{Program: rpcbind.Program, Version: 4},
}

// Check connects to the server once, so that a fault shows before clients come.
func (r *Relay) Check(ctx context.Context) error {
	c, err := r.dialServer(ctx)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// Serve takes connections of clients from l until Close, which closes l: then it
// returns ErrClosed. It may be called for several listeners.
func (r *Relay) Serve(l net.Listener) error {
	if err := r.tcp.Serve(l); err != tcp.ErrServerClosed {
		return err
	}
	return ErrClosed
}

// housekeeping is the interval at which unused memory goes back to the system.
const housekeeping = time.Minute

func (r *Relay) keepHouse() {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.pool.Housekeep()
		case <-r.life.Done():
			return
		}
	}
}

// Clients returns the number of connected clients.
func (r *Relay) Clients() int { return r.tcp.Stats().Connections }

// Close ends all listeners and connections. It returns when nothing of the relay
// runs any more.
func (r *Relay) Close() {
	r.end()
	r.tcp.Close()
	r.work.Wait()
	r.rpc.Close()
	r.pool.Close()
}

// event is tcp.Config.Event.
func (r *Relay) event(e tcp.Event) {
	switch e.Kind {
	case tcp.EventConnected:
		r.sessions.Store(e.Conn, newSession(r))
	case tcp.EventClosed:
		s := r.sessionOf(e.Conn)
		r.sessions.Delete(e.Conn)
		if r.cfg.Event != nil {
			r.cfg.Event(Event{Client: e.Peer, Calls: s.calls.Load(), Err: r.cause(s, e.Err)})
		}
		r.work.Go(s.close)
	}
}

// cause returns the reason for the end of a client's connection. err is the reason that
// transport/tcp gives.
func (r *Relay) cause(s *session, err error) error {
	if why := s.failure.Load(); why != nil {
		return *why
	}
	switch {
	case err == io.EOF:
		return nil
	case r.life.Err() != nil:
		return ErrClosed
	}
	return err
}

// sessionOf is the session of a client's connection; nil after its end.
func (r *Relay) sessionOf(c *rpc.Conn) *session {
	if s, ok := r.sessions.Load(c); ok {
		return s.(*session)
	}
	return nil
}

func (r *Relay) dialServer(ctx context.Context) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return client.Dial(ctx, r.cfg.Target)
}

// dialMount connects to the server's MOUNT service.
func (r *Relay) dialMount(ctx context.Context) (*client.Conn, error) {
	if r.cfg.MountPort != 0 {
		ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
		defer cancel()
		return client.Dial(ctx, client.Target{Transport: client.TCP, Host: r.cfg.Target.Host, Port: r.cfg.MountPort})
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	target := r.cfg.Target
	target.Security = nil // few servers have it for MOUNT
	c, err := client.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	m, own, err := c.DialMount(ctx, 0)
	if err != nil || own {
		c.Close()
	}
	return m, err
}
