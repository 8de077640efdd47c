package rdmacm_test

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
)

// A provider can be written outside this module: this provider uses only exported packages. It
// wraps an in-memory provider, which carries its connections, and gives each accepted
// connection a seat.
type provider struct {
	rdmacm.Provider
	seats rdmacm.Seats
}

func (p *provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	carrier, err := p.Provider.Listen(addr)
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: carrier, seats: p.seats, requests: make(chan *request), closed: make(chan struct{})}
	l.arrivals.Go(l.serve)
	return l, nil
}

type listener struct {
	rdmacm.Listener
	seats    rdmacm.Seats
	requests chan *request
	closed   chan struct{}
	once     sync.Once
	arrivals sync.WaitGroup
}

func (l *listener) serve() {
	for {
		carrier, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.arrivals.Go(func() { l.arrive(carrier) })
	}
}

// arrive asks for a seat for a request, and then hands the request to Accept.
func (l *listener) arrive(carrier rdmacm.Request) {
	r := &request{Request: carrier, seat: rdmacm.Uncounted, lost: make(chan struct{})}
	if l.seats != nil {
		seat, err := l.seats.Arrive(r.Peer(), r)
		if err != nil {
			carrier.Reject(nil)
			return
		}
		r.seat = seat
	}
	select {
	case l.requests <- r:
		return
	case <-r.lost:
	case <-l.closed:
	}
	r.Reject(nil)
}

func (l *listener) Accept() (rdmacm.Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Listener.Close()
	l.arrivals.Wait()
	return err
}

type request struct {
	rdmacm.Request
	seat rdmacm.Seat
	lost chan struct{}
}

func (r *request) End(error)         { close(r.lost) }
func (r *request) Busy() bool        { return false }
func (r *request) Seat() rdmacm.Seat { return r.seat }

func (r *request) Accept(p rdmacm.ConnParam) (rdmacm.Conn, error) {
	h := &handler{Handler: p.Handler, seat: r.seat}
	p.Handler = h
	c, err := r.Request.Accept(p)
	if err != nil {
		r.seat.Leave()
		return nil, err
	}
	r.seat.Hold(rdmacm.HolderOf(c), &h.moved)
	return c, nil
}

func (r *request) Reject(privateData []byte) error {
	defer r.seat.Leave()
	return r.Request.Reject(privateData)
}

type handler struct {
	rdmacm.Handler
	seat  rdmacm.Seat
	moved atomic.Uint64
}

func (h *handler) Received(r *rdmacm.Recv) {
	h.seat.Heard()
	h.moved.Add(1)
	h.Handler.Received(r)
}

func (h *handler) Closed(err error) {
	h.seat.Leave()
	h.Handler.Closed(err)
}

func TestAProviderCanBeWrittenOutside(t *testing.T) {
	open := func(_ *testing.T, seats rdmacm.Seats) rdmacm.Provider {
		return &provider{rdmatest.New(), seats}
	}
	rdmatest.Run(t, func(t *testing.T) rdmacm.Provider { return open(t, nil) }, rdmatest.Options{Counted: open})
}
