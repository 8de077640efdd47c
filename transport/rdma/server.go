package rdma

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// ErrServerClosed is the error of Serve after Shutdown or Close.
var ErrServerClosed = errors.New("rdma: server closed")

// A Server accepts RPC-over-RDMA connections and serves their calls. Any goroutine may call
// its methods.
type Server struct {
	config Config
	own    wire.PrivateData
	failed *failedXIDs
	// unjudged is the memory group of calls in Position-Zero Read chunks. Before the RDMA Reads of
	// such a call are done, the server cannot decide whether to serve it (Calls.Admit).
	unjudged *mem.Group
	stats    Stats

	mu        sync.Mutex
	closing   bool
	listeners map[rdmacm.Listener]struct{}
	open      map[*connection]struct{}
	setup     sync.WaitGroup // counts calls of accept that have not returned
	empty     chan struct{}  // closed when the server is closing and the last connection is gone
}

// NewServer makes a server. It does not listen before Serve.
func NewServer(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:    config,
		failed:    newFailedXIDs(),
		unjudged:  config.Pool.NewGroup(),
		listeners: make(map[rdmacm.Listener]struct{}),
		open:      make(map[*connection]struct{}),
		empty:     make(chan struct{}),
	}
	s.own = wire.PrivateData{
		RemoteInvalidation: config.RemoteInvalidation,
		SendSize:           config.InlineSend,
		ReceiveSize:        config.InlineReceive,
	}
	return s, nil
}

// Stats returns the server's counters.
func (s *Server) Stats() *Stats { return &s.stats }

// Serve accepts connections from l until Shutdown or Close closes l; then it returns
// ErrServerClosed. If l fails otherwise, Serve closes l and returns its error.
func (s *Server) Serve(l rdmacm.Listener) error {
	own := s.own
	own.RemoteInvalidation = own.RemoteInvalidation && l.Limits().RemoteInvalidation
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		l.Close()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		l.Close()
	}()
	for {
		r, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			closing := s.closing
			s.mu.Unlock()
			if closing && errors.Is(err, net.ErrClosed) {
				return ErrServerClosed
			}
			return err
		}
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			r.Reject(nil)
			continue
		}
		k := newConnection(own, &s.stats, s.config.Event)
		k.onClosed = func(error) { s.gone(k) }
		s.open[k] = struct{}{}
		s.setup.Add(1)
		s.mu.Unlock()
		s.stats.Connections.Add(1)
		go func() {
			defer s.setup.Done()
			s.accept(r, k)
		}()
	}
}

// accept sets up one connection. If the set-up fails, accept removes the connection from s.open.
func (s *Server) accept(r rdmacm.Request, k *connection) {
	param := k.param(s.config.StrangerCredits, s.config.Credits+s.config.callbackCredits)
	param.OutboundReads = s.config.reads
	device, err := r.Accept(param)
	if err != nil {
		s.gone(k)
		return
	}
	s.stats.Accepted.Add(1)
	k.agree(device)
	if s.config.Version2 {
		k.version2, k.framing, k.chosen = true, versionOpen{version1{k}}, s.config.Chosen
	} else {
		k.speaks(1)
	}
	to := newResponder(k, s.config.RPC, s.config.StrangerCredits, s.failed)
	to.conn.Window = s.config.Credits
	// A device reports the end of a connection only after it has processed all earlier
	// input, and by then the client may have another connection. So Left, which reports
	// whether the client may already use another connection, always returns true. No
	// address translation is in use between RDMA peers, so two connections from one address
	// belong to the same client.
	to.conn.Left = func() bool { return true }
	to.maxCall, to.maxReply, to.unjudged = s.config.maxCall, s.config.maxReply, s.unjudged
	to.pool, to.share = s.config.Pool, s.config.Pool.OpenShare(clientaddr.Of(to.peer), (*holder)(k))
	to.ledger.Open(to.share)
	seat := r.Seat()
	to.conn.OnKnown(func() {
		seat.Known()
		to.grant(s.config.Credits - s.config.StrangerCredits)
	})
	seat.Hold((*seated)(k), &k.moved)
	to.back = newBackchannel(k, s.config.callbackCredits)
	to.conn.SetCaller(to.back)
	k.start()

	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		k.drain()
	}
}

// gone removes a connection that has ended from s.open.
func (s *Server) gone(k *connection) {
	s.stats.Connections.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, k)
	if s.closing && len(s.open) == 0 {
		close(s.empty)
	}
}

// stopListening stops listening and returns the connections that are set up.
func (s *Server) stopListening() []*connection {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		if len(s.open) == 0 {
			close(s.empty)
		}
	}
	listeners := make([]rdmacm.Listener, 0, len(s.listeners))
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	s.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	return s.connections()
}

// connections returns the connections that are set up.
func (s *Server) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*connection, 0, len(s.open))
	for k := range s.open {
		if k.early.ready.Load() {
			all = append(all, k)
		}
	}
	return all
}

// Shutdown drains the server: it stops listening, lets every call in progress be answered, accepts
// no new ones, and ends each connection after its last call. It returns when all connections are
// gone. If ctx ends first, Shutdown aborts the remaining connections and returns the context's
// cause.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, k := range s.stopListening() {
		k.drain()
	}
	select {
	case <-s.empty:
		s.setup.Wait()
		return nil
	case <-ctx.Done():
		s.abort()
		return context.Cause(ctx)
	}
}

// Close ends the server and all its connections at once, and returns when they are gone.
func (s *Server) Close() error {
	s.stopListening()
	s.abort()
	return nil
}

// abort ends all connections and waits until they are gone.
func (s *Server) abort() {
	for _, k := range s.connections() {
		k.device.Abort(ErrServerClosed)
	}
	// connections returns a connection only when its set-up is complete. So wait for the set-ups
	// under way, and call it again.
	s.setup.Wait()
	for _, k := range s.connections() {
		k.device.Abort(ErrServerClosed)
	}
	<-s.empty
}
