package rdmatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// backlog is the number of connection requests that may wait at a listener.
const backlog = 1024

// Config configures an in-memory provider. If a field is zero, the default in its comment
// applies.
type Config struct {
	// MaxSend is the size of the largest Send, in bytes; default 1 MiB. MaxLocal is the largest
	// number of pieces of local memory in a work request; default 16.
	MaxSend, MaxLocal int
	// NoRemoteInvalidation is true if the provider does not offer Send with Invalidate.
	NoRemoteInvalidation bool
	// MaxReads is the upper limit of InboundReads and OutboundReads; default 128.
	MaxReads int
	// Seats gives accepted connections their seats. If it is nil, connections are not counted.
	Seats rdmacm.Seats
	// Patience is the time limit of Disconnect; default 10 s.
	Patience time.Duration
	// Stall is the longest time from one call of Done to the next while chains are posted;
	// default 30 s. After it the connection ends with ErrStalled, at most a quarter of Stall
	// late.
	Stall time.Duration
	// ShortSends is true if SendShort takes Sends of up to 512 bytes. Otherwise every Send is a
	// chain, so that Faults can name it.
	ShortSends bool
	// Quiet is true if the provider keeps no log, and does not overwrite released messages.
	Quiet bool
	// Conn is called with each new connection, before the connection carries anything and before
	// its handler is called. In this call a test can set Faults. Conn must not call methods of
	// the connection that wait for the peer.
	Conn func(c *Conn)
}

// Provider is an rdmacm.Provider in memory.
type Provider struct {
	cfg Config
	log *Log

	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	nextPort  uint16
	nextID    int
	stags     map[uint32]struct{} // in use, or retired recently

	retired     [4096]uint32 // STags that are no longer in use; a ring buffer
	retirements int
}

// New returns a provider with default settings. Each provider has its own addresses.
func New() *Provider { return NewConfig(Config{}) }

// NewConfig returns a provider with the settings of cfg.
func NewConfig(cfg Config) *Provider {
	orDefault(&cfg.MaxSend, 1<<20)
	orDefault(&cfg.MaxLocal, 16)
	orDefault(&cfg.MaxReads, 128)
	orDefault(&cfg.Patience, 10*time.Second)
	orDefault(&cfg.Stall, 30*time.Second)
	return &Provider{
		cfg:       cfg,
		log:       newLog(cfg.Quiet),
		listeners: make(map[netip.AddrPort]*listener),
		nextPort:  40000,
		stags:     make(map[uint32]struct{}),
	}
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Name returns "memory".
func (p *Provider) Name() string { return "memory" }

// Limits returns the limits that Config sets.
func (p *Provider) Limits() rdmacm.Limits {
	return rdmacm.Limits{
		MaxSend: p.cfg.MaxSend, MaxLocal: p.cfg.MaxLocal,
		RemoteInvalidation: !p.cfg.NoRemoteInvalidation,
	}
}

// Log returns the log of all connections of the provider.
func (p *Provider) Log() *Log { return p.log }

// port returns the next port from 40000 up. The caller holds p.mu.
func (p *Provider) port() uint16 {
	p.nextPort++
	if p.nextPort == 0 {
		p.nextPort = 40000
	}
	return p.nextPort
}

// Listen starts to accept connections at addr. Any address is valid.
func (p *Provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), p.port())
	}
	if p.listeners[addr] != nil {
		return nil, fmt.Errorf("rdmatest: listen at %v: %w", addr, syscall.EADDRINUSE)
	}
	l := &listener{
		provider: p,
		addr:     addr,
		requests: make(chan *request, backlog),
		closed:   make(chan struct{}),
	}
	p.listeners[addr] = l
	return l, nil
}

// find returns the listener at addr, or at its port on an unspecified address, or nil.
func (p *Provider) find(addr netip.AddrPort) *listener {
	for _, a := range []netip.Addr{addr.Addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if l := p.listeners[netip.AddrPortFrom(a, addr.Port())]; l != nil {
			return l
		}
	}
	return nil
}

// Dial connects to a listener of the same provider.
func (p *Provider) Dial(ctx context.Context, addr netip.AddrPort, param rdmacm.ConnParam) (rdmacm.Conn, error) {
	if err := checkParam(param, rdmacm.MaxRequestData); err != nil {
		return nil, err
	}
	p.mu.Lock()
	l := p.find(addr)
	r := &request{
		listener: l,
		peer:     netip.AddrPortFrom(addr.Addr(), p.port()),
		local:    addr,
		param:    param,
		seat:     rdmacm.Uncounted,
		answer:   make(chan struct{}),
	}
	p.mu.Unlock()
	// The private data is copied, because the peer may read it after Dial has returned.
	r.param.PrivateData = append([]byte(nil), param.PrivateData...)
	if l == nil {
		return nil, fmt.Errorf("rdmatest: dial %v: %w", addr, syscall.ECONNREFUSED)
	}
	if err := r.arrive(); err != nil {
		return nil, fmt.Errorf("rdmatest: dial %v: %w: %w", addr, syscall.ECONNRESET, err)
	}
	if !l.offer(r) {
		r.seat.Leave()
		return nil, fmt.Errorf("rdmatest: dial %v: %w", addr, syscall.ECONNREFUSED)
	}
	select {
	case <-r.answer:
	case <-ctx.Done():
		if r.settle(nil, ctx.Err()) {
			return nil, ctx.Err()
		}
		<-r.answer
	case <-l.closed:
		err := fmt.Errorf("rdmatest: dial %v: %w", addr, syscall.ECONNREFUSED)
		// If Accept has handed the request out already, drop returns false, and the other end may
		// still answer the request. So Dial waits for the answer or for ctx.
		if r.drop(err) {
			return nil, err
		}
		select {
		case <-r.answer:
		case <-ctx.Done():
			if r.settle(nil, ctx.Err()) {
				return nil, ctx.Err()
			}
			<-r.answer
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.conn, nil
}

func checkParam(p rdmacm.ConnParam, most int) error {
	if p.Handler == nil {
		panic("rdmatest: ConnParam without a Handler")
	}
	if len(p.PrivateData) > most {
		return fmt.Errorf("rdmatest: %d bytes of private data exceed %d", len(p.PrivateData), most)
	}
	return nil
}

type listener struct {
	provider *Provider
	addr     netip.AddrPort
	requests chan *request
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Limits() rdmacm.Limits { return l.provider.Limits() }
func (l *listener) Addr() netip.AddrPort  { return l.addr }

func (l *listener) offer(r *request) bool {
	select {
	case <-l.closed:
		return false
	default:
	}
	select {
	case l.requests <- r:
		return true
	default:
		return false
	}
}

func (l *listener) Accept() (rdmacm.Request, error) {
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
		select {
		case r := <-l.requests:
			if r.take() {
				return r, nil
			}
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.provider.mu.Lock()
		delete(l.provider.listeners, l.addr)
		l.provider.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// request is a call of Dial that has not returned yet.
type request struct {
	listener    *listener
	peer, local netip.AddrPort
	param       rdmacm.ConnParam
	seat        rdmacm.Seat

	mu      sync.Mutex
	taken   bool
	settled bool

	answer chan struct{}
	conn   *Conn
	err    error
}

// arrive asks Seats for a seat. It returns an error if Seats refuses the connection.
func (r *request) arrive() error {
	seats := r.listener.provider.cfg.Seats
	if seats == nil {
		return nil
	}
	seat, err := seats.Arrive(r.peer, r)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seat = seat; r.settled {
		seat.Leave() // Seats has ended the connection meanwhile
		return r.err
	}
	return nil
}

// End implements rdmacm.Holder.
func (r *request) End(why error) { r.settle(nil, why) }

// Busy implements rdmacm.Holder.
func (r *request) Busy() bool { return false }

// settle ends the request with a connection or an error. It returns false if the request had
// already ended. If c is nil, settle gives up the request's seat.
func (r *request) settle(c *Conn, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return false
	}
	r.settled = true
	r.conn, r.err = c, err
	if c == nil {
		r.seat.Leave()
	}
	close(r.answer)
	return true
}

// take records that Accept hands the request to the ULP. It returns false if the request has
// ended.
func (r *request) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = true
	return !r.settled
}

// drop ends the request with err, unless Accept has handed the request to the ULP. It reports
// whether it ended the request.
func (r *request) drop(err error) bool {
	r.mu.Lock()
	taken := r.taken
	r.taken = true
	r.mu.Unlock()
	return !taken && r.settle(nil, err)
}

func (r *request) Peer() netip.AddrPort  { return r.peer }
func (r *request) Local() netip.AddrPort { return r.local }
func (r *request) PrivateData() []byte   { return r.param.PrivateData }

func (r *request) Seat() rdmacm.Seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seat
}

var errGone = errors.New("rdmatest: the peer gave up before it was answered")

// Accept makes the two ends of a connection and starts them.
func (r *request) Accept(param rdmacm.ConnParam) (rdmacm.Conn, error) {
	if err := checkParam(param, rdmacm.MaxAcceptData); err != nil {
		return nil, err
	}
	p := r.listener.provider
	near, far := p.connect(r, param)
	near.seat = r.Seat()
	if !r.settle(far, nil) {
		return nil, errGone
	}
	near.seat.Hold(rdmacm.HolderOf(near), &near.moved)
	near.start()
	far.start()
	return near, nil
}

func (r *request) Reject(privateData []byte) error {
	if len(privateData) > rdmacm.MaxRejectData {
		return fmt.Errorf("rdmatest: %d bytes of private data exceed %d", len(privateData), rdmacm.MaxRejectData)
	}
	if !r.settle(nil, &rdmacm.RejectedError{PrivateData: append([]byte(nil), privateData...)}) {
		return errGone
	}
	return nil
}
