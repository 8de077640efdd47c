package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A session holds the connections to the server that serve one client's connection. The
// relay makes them when a call needs them.
type session struct {
	relay   *Relay
	conn    *rpc.Conn     // the client's connection
	back    *client.Calls // serves the server's calls to the client
	calls   atomic.Int64  // number of calls carried
	asked   atomic.Bool   // whether the server was asked which calls it takes (sizes)
	failure atomic.Pointer[error]
	nfs     line // connection to the NFS service
	mount   line // connection to the MOUNT service

	mu sync.Mutex
	// changing is the number of calls under way that change something. settled, if not nil, is closed
	// when it is 0.
	changing int
	settled  chan struct{}
}

func newSession(r *Relay, conn *rpc.Conn) *session {
	s := &session{relay: r, conn: conn}
	s.back = newCalls(s)
	s.nfs = line{relay: r, dial: func(ctx context.Context) (*client.Conn, error) { return r.dialServer(ctx, s.back) }}
	s.mount = line{relay: r, dial: r.dialMount}
	return s
}

// fail records the reason why the client's connection is about to end.
func (s *session) fail(err error) { s.failure.CompareAndSwap(nil, &err) }

// began and ended note the beginning and the end of a call that changes something.
func (s *session) began() {
	s.mu.Lock()
	s.changing++
	s.mu.Unlock()
}

func (s *session) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changing--; s.changing == 0 && s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

// close ends the connections to the server, and with them the calls in progress. The client's
// connection has ended, so the relay drops the replies to these calls. But first it waits for the
// replies to calls that change something, so that the reply cache has them when the client repeats
// the calls.
func (s *session) close() {
	s.mu.Lock()
	var settled chan struct{}
	if s.changing > 0 {
		settled = make(chan struct{})
		s.settled = settled
	}
	s.mu.Unlock()
	if settled != nil {
		limit := time.NewTimer(s.relay.cfg.Timeout)
		defer limit.Stop()
		select {
		case <-settled:
		case <-limit.C:
		case <-s.relay.life.Done():
		}
	}
	s.nfs.close()
	s.mount.close()
	s.back.RPC.Close()
}

// A line is the connection of a session to one of the server's services.
type line struct {
	relay *Relay
	dial  func(ctx context.Context) (*client.Conn, error)

	mu      sync.Mutex
	conn    *client.Conn // nil: not made yet
	dialing bool
	cancel  context.CancelFunc // stops dial
	waiting []*forward         // calls that wait for dial
	closed  bool
}

// carry sends a call to the service. If the line has no connection, the call waits until connect
// has made one. If connect fails, the call ends with the error of connect. carry does not block.
// Calls are sent in the order in which they came.
func (l *line) carry(f *forward) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		f.undialled(ErrClosed)
	case l.dialing:
		l.waiting = append(l.waiting, f)
		l.mu.Unlock()
	case l.conn != nil && !l.conn.Lost():
		c := l.conn
		l.mu.Unlock()
		f.start(c)
	default:
		lost := l.conn
		ctx, cancel := context.WithCancel(l.relay.life)
		l.conn, l.dialing, l.cancel = nil, true, cancel
		l.waiting = append(l.waiting, f)
		l.mu.Unlock()
		l.relay.work.Go(func() { l.connect(ctx, lost) })
	}
}

// connect makes the connection and sends the calls that wait for it. lost is the previous
// connection, or nil.
func (l *line) connect(ctx context.Context, lost *client.Conn) {
	if lost != nil {
		lost.Close()
	}
	c, err := l.dial(ctx)
	for {
		l.mu.Lock()
		waiting := l.waiting
		l.waiting = nil
		if len(waiting) == 0 {
			break
		}
		l.mu.Unlock()
		for _, f := range waiting {
			if err != nil {
				f.undialled(err)
			} else {
				f.start(c)
			}
		}
	}
	l.cancel()
	l.dialing = false
	closed := l.closed
	if err == nil && !closed {
		l.conn = c
	}
	l.mu.Unlock()
	if err == nil && closed {
		c.Close()
	}
}

// close ends the connection to the server, and returns when all calls on the connection have ended.
// If connect is still dialing, close cancels the attempt, and does not wait for it.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	c := l.conn
	l.conn = nil
	if l.dialing {
		l.cancel()
	}
	l.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
