// Package relay accepts RPC calls over TCP and carries them to an NFS server by another
// transport. Many calls may be in progress, and each is answered as soon as the server has
// answered it. Calls of MOUNT go to the server's MOUNT service. The relay answers calls of
// rpcbind itself, and gives its own port.
//
// A Relay is an rpc.Fallback on transport/tcp: it serves calls of any program. Each call waits
// without a goroutine (rpc.Outcome.Pending) until the server's reply completes it. transport/tcp
// limits the number of connections, and the memory of calls and replies.
//
// The relay carries the server's callbacks to the clients, too.
//
// RPCSEC_GSS cannot be relayed, because it protects the XID of a call, and each connection has
// XIDs of its own. So the relay refuses such calls with AUTH_REJECTEDCRED. Because of the XIDs
// the server would not recognize a repeated call either, so the relay answers it itself, with the
// reply to the first call (see rows).
//
// A Relay can protect the calls to the server: with Target.Security it makes all calls of NFS as
// its own principal, whatever credentials the clients send.
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

// Config configures a Relay. A field that is 0 has the default in its comment.
type Config struct {
	// Target is the server. Its Cred is not used, because each call keeps its own. Each client's
	// connection has its own connection to the server. With Security, the server ignores the
	// credentials of NFS callers: each client that the relay serves acts as the relay's
	// principal. The relay then serves only clients on privileged ports, unless Insecure is set.
	Target   client.Target
	Insecure bool
	// MountPort is the TCP port of the server's MOUNT service. 0 means to find it: see
	// client.Conn.DialMount.
	MountPort int
	// Port is the TCP port of the relay, which its rpcbind service tells clients.
	Port int
	// Clients is the maximum number of clients' connections; default 1000.
	Clients int
	// Calls is the maximum number of calls in progress for each client's connection; default 128.
	// Memory is how many bytes all calls together may use; default 256 MiB.
	Calls  int
	Memory int64
	// MaxReply is the largest result, in bytes, of a procedure that belongs neither to NFS version 3
	// nor to MOUNT; default 1,088 KiB. The relay reserves this much for each such call.
	MaxReply int
	// Timeout is a time limit for several waits; default 30 s. The relay gives up a connection to
	// the server that is not made in this time. It ends the connection of a client that stops in the
	// middle of a call, or does not read its replies. If a client has closed its side, the relay
	// waits this long for the server's answers to its calls; if the client's connection has ended, for
	// the answers to calls that change something.
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
	// One client may use at most half of Memory. Raise Memory so that two of the largest calls
	// fit into that half.
	c.Memory = max(c.Memory, 4*(maxRecord+int64(c.MaxReply)))
	return c
}

// A Relay carries calls from clients to a server. Its methods may be called from any goroutine.
type Relay struct {
	cfg  Config
	pool *mem.Pool
	rpc  *rpc.Server
	tcp  *tcp.Server

	sizes    sizes
	sessions sync.Map // *session by *rpc.Conn
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup // goroutines of the relay itself, without those of tcp
}

// ErrClosed is the error of Serve after Close.
var ErrClosed = errors.New("relay: closed")

// New makes a relay, which runs until Close. The relay connects to the server only when clients
// make calls. New fails if it cannot reserve address space for Config.Memory.
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

// services are the programs that the relay's rpcbind service tells clients about.
var services = []rpcbind.Service{
	{Program: nfs3wire.Program, Version: nfs3wire.Version},
	{Program: nfs3wire.Program, Version: 4},
	{Program: mount3wire.Program, Version: mount3wire.Version},
	{Program: rpcbind.Program, Version: 4},
}

// Check connects to the server once, to report a fault before clients come.
func (r *Relay) Check(ctx context.Context) error {
	c, err := r.dialServer(ctx, nil)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// Serve accepts connections of clients on l. Close closes l; Serve then returns ErrClosed. It may
// be called for several listeners.
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

// Clients returns the number of clients' connections.
func (r *Relay) Clients() int { return r.tcp.Stats().Connections }

// Close ends all listeners and connections. It returns when all goroutines of the relay have
// ended.
func (r *Relay) Close() {
	r.end()
	r.tcp.Close()
	r.work.Wait()
	r.rpc.Close()
	r.pool.Close()
}

// event makes a session for a new client connection, and ends the session when the connection has
// ended. It is the callback tcp.Config.Event.
func (r *Relay) event(e tcp.Event) {
	switch e.Kind {
	case tcp.EventConnected:
		r.sessions.Store(e.Conn, newSession(r, e.Conn))
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

// sessionOf returns the session of a client's connection, or nil after the connection's end.
func (r *Relay) sessionOf(c *rpc.Conn) *session {
	if s, ok := r.sessions.Load(c); ok {
		return s.(*session)
	}
	return nil
}

// dialServer connects to the NFS service. back serves the calls that the server makes.
func (r *Relay) dialServer(ctx context.Context, back *client.Calls) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	target := r.cfg.Target
	target.Calls = back
	return client.Dial(ctx, target)
}

// dialMount connects to the server's MOUNT service.
func (r *Relay) dialMount(ctx context.Context) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if r.cfg.MountPort != 0 {
		return client.Dial(ctx, client.Target{Transport: client.TCP, Host: r.cfg.Target.Host, Port: r.cfg.MountPort})
	}
	target := r.cfg.Target
	target.Security = nil // few servers support RPCSEC_GSS for MOUNT
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
