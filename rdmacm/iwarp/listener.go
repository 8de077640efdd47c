package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Listen starts to accept connections at addr.
func (p *Provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	tcp, err := net.ListenTCP(network(addr), net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	l := &listener{p: p, tcp: tcp, requests: make(chan *request)}
	l.life, l.end = context.WithCancel(context.Background())
	l.wg.Go(l.serve)
	return l, nil
}

func network(addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

type listener struct {
	p        *Provider
	tcp      *net.TCPListener
	requests chan *request
	life     context.Context // ends when Close is called
	end      context.CancelFunc
	wg       sync.WaitGroup
}

func (l *listener) Limits() rdmacm.Limits { return l.p.Limits() }

func (l *listener) Addr() netip.AddrPort { return addrPort(l.tcp.Addr()) }

func (l *listener) Accept() (rdmacm.Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.life.Done():
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	if l.life.Err() != nil {
		return net.ErrClosed
	}
	l.end()
	err := l.tcp.Close()
	l.wg.Wait()
	return err
}

// serve accepts connections. It never waits for a peer: each connection that Seats admits is set
// up on a goroutine of its own.
func (l *listener) serve() {
	d := doorway.Door{
		Enter: func(c net.Conn) { l.startSetup(c.(*net.TCPConn)) },
		Knows: l.p.cfg.Seats.Knows, Failed: l.p.cfg.Seats.AcceptFailed, Closed: l.life.Done(),
	}
	_ = d.Serve(l.tcp) // until l.tcp is closed
}

// startSetup starts the set-up of a connection.
func (l *listener) startSetup(sock *net.TCPConn) {
	a := &arrival{
		request:  request{p: l.p, sock: sock, peer: addrPort(sock.RemoteAddr()), local: addrPort(sock.LocalAddr())},
		listener: l,
		lost:     make(chan struct{}),
	}
	if l.life.Err() != nil {
		a.refuse(net.ErrClosed)
		return
	}
	seat, err := l.p.cfg.Seats.Arrive(a.peer, a)
	if err != nil {
		a.refuse(err)
		return
	}
	a.seat = seat
	l.wg.Go(a.setUp)
}

// An arrival is a connection in set-up. It is the rdmacm.Holder of the connection's seat until
// the set-up is complete.
type arrival struct {
	request
	listener *listener
	why      error // valid once lost is closed
	lost     chan struct{}
}

// End implements rdmacm.Holder.
func (a *arrival) End(why error) {
	a.why = why
	close(a.lost)
	a.sock.Close()
}

// Busy implements rdmacm.Holder. A set-up waits only for the peer, so it is never busy.
func (a *arrival) Busy() bool { return false }

// setUp receives the MPA request of a new connection and passes it to Accept.
func (a *arrival) setUp() {
	l := a.listener
	a.deadline = time.Now().Add(l.p.cfg.SetupTimeout)
	a.sock.SetDeadline(a.deadline)
	var err error
	keepOpen := context.AfterFunc(l.life, func() { a.sock.Close() })
	a.frame, err = readFrame(a.sock, false)
	// From here on, listener.Close leaves the socket open, because the socket may soon belong to a
	// connection.
	if !keepOpen() && err == nil {
		err = net.ErrClosed
	}
	if _, is := errors.AsType[*doorway.Mistake](err); is {
		hold := time.NewTimer(doorway.Hold)
		defer hold.Stop()
		select {
		case <-hold.C:
		case <-l.life.Done():
		case <-a.lost:
		}
	}
	if err == nil {
		timer := time.NewTimer(time.Until(a.deadline))
		defer timer.Stop()
		select {
		case l.requests <- &a.request:
			return
		case <-timer.C:
			err = errors.Join(rdmacm.ErrSetup, rdmacm.ErrTimeout)
		case <-l.life.Done():
			err = net.ErrClosed
		case <-a.lost:
		}
	}
	select {
	case <-a.lost:
		err = fmt.Errorf("%w: %w", rdmacm.ErrSetup, a.why)
		if a.why == census.SlowSetup {
			err = errors.Join(err, rdmacm.ErrTimeout)
		}
	default:
	}
	a.fail(err)
}
