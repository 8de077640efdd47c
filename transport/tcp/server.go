package tcp

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
)

// ErrServerClosed is the error of Serve after Shutdown or Close.
var ErrServerClosed = errors.New("tcp: server closed")

// A Server accepts connections and serves their calls. Any goroutine may call its methods.
type Server struct {
	cfg   Config
	count counters

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	closing   bool
	wg        sync.WaitGroup // counts connections and listeners
	closed    chan struct{}  // closed when closing becomes true
	ticks     bool           // true if tick will be called

	sweeping sync.Mutex // guards swept and conn.mark
	swept    []*conn    // memory of sweep
}

// NewServer returns a server without listeners.
func NewServer(cfg Config) *Server {
	if cfg.RPC == nil || cfg.Pool == nil {
		panic("tcp: a server needs RPC and Pool")
	}
	return &Server{
		cfg:       cfg.withDefaults(),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		closed:    make(chan struct{}),
	}
}

// Serve accepts connections from l until l is closed. If Shutdown or Close has closed l, Serve
// returns ErrServerClosed, otherwise the error of l. After any other error of l, Serve waits for a
// moment and continues (census.Census.AcceptFailed).
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		l.Close()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	defer l.Close()
	d := doorway.Door{Enter: s.serve, Knows: s.cfg.Census.Knows, Failed: s.cfg.Census.AcceptFailed, Closed: s.closed}
	err := d.Serve(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	if s.closing {
		return ErrServerClosed
	}
	return err
}

// serve serves a connection on a goroutine of its own, if the Census admits it. Otherwise it closes
// the connection.
func (s *Server) serve(nc net.Conn) {
	peer, local := addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr())
	select {
	case <-s.closed: // before another connection loses its seat
		s.refuse(nc, peer, local, errClosing)
		return
	default:
	}
	seat, err := s.cfg.Census.Enter(census.Peer{Addr: peer, Transport: "tcp"}, &fresh{nc})
	if err != nil {
		s.refuse(nc, peer, local, err)
		return
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		s.refuse(nc, peer, local, errClosing)
		seat.Leave()
		return
	}
	rc := s.cfg.RPC.NewConn(peer, local, "tcp", peer.Port() > 0 && peer.Port() < 1024)
	rc.Window = s.cfg.MaxInFlight
	c := newConn(&s.cfg, &s.count, newStream(nc), s.cfg.RPC, rc)
	c.stream.mostUnsent(strangerUnsent)
	rc.OnKnown(func() {
		seat.Known()
		c.stream.mostUnsent(0)
	})
	rc.Left = c.stream.left
	c.seat = seat
	s.conns[c] = struct{}{}
	if !s.ticks {
		s.ticks = true
		time.AfterFunc(sweepEvery(&s.cfg), s.tick)
	}
	s.count.accepted.Add(1)
	s.wg.Add(1)
	s.mu.Unlock()
	// From here on only c closes nc, so the Census has to end the connection through c.
	seat.Hold(c, &c.received)
	live := func() {
		over, err := c.run()
		if !over {
			return
		}
		defer s.wg.Done()
		seat.Leave()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.count.received.Add(c.received.Load())
		s.count.sent.Add(c.out.written.Load())
		s.cfg.event(Event{Kind: EventClosed, Peer: peer, Local: local, Conn: rc, Err: err})
	}
	if _, ok := c.stream.(*socket); ok {
		c.lender.Replace = func() { go live() }
	}
	go func() {
		s.cfg.event(Event{Kind: EventConnected, Peer: peer, Local: local, Conn: rc})
		live()
	}()
}

func (s *Server) refuse(nc net.Conn, peer, local netip.AddrPort, why error) {
	nc.Close()
	s.count.refused.Add(1)
	s.cfg.event(Event{Kind: EventRefused, Peer: peer, Local: local, Err: why})
}

// fresh is the census.Holder of a connection that the Census has admitted and that is not served
// yet.
type fresh struct{ nc net.Conn }

// End implements census.Holder.
func (f *fresh) End(error) { f.nc.Close() }

// Busy implements census.Holder.
func (f *fresh) Busy() bool { return false }

// tick sweeps while there are connections.
func (s *Server) tick() {
	s.sweep(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ticks = len(s.conns) > 0; s.ticks {
		time.AfterFunc(sweepEvery(&s.cfg), s.tick)
	}
}

// sweep sweeps all connections. It makes system calls, so it does not hold the lock that accepting a
// connection takes.
func (s *Server) sweep(now time.Time) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.mu.Lock()
	s.swept = slices.AppendSeq(s.swept[:0], maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range s.swept {
		c.sweep(now)
	}
	clear(s.swept)
}

// Shutdown closes the listeners and reads no more calls. It returns when all calls under
// way are answered, the replies sent, and all connections closed. If ctx ends before that,
// it closes the remaining connections and returns the context's cause.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close((*conn).leave)
	stop := context.AfterFunc(ctx, func() { s.close((*conn).abort) })
	s.wg.Wait()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// Close closes all listeners and connections at once, and returns when none of their goroutines is
// left. Calls that run on other goroutines continue; their replies are dropped.
func (s *Server) Close() {
	s.close((*conn).abort)
	s.wg.Wait()
}

func (s *Server) close(end func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		close(s.closed)
	}
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		end(c)
	}
}
