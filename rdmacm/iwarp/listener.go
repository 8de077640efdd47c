package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Listen starts to accept connections at addr.
func (p *Provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	tcp, err := net.ListenTCP(network(addr), net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	l := &listener{
		p: p, tcp: tcp,
		requests: make(chan *request),
		closed:   make(chan struct{}),
		slots:    make(chan struct{}, p.cfg.MaxSetups),
		setups:   make(map[*net.TCPConn]struct{}),
	}
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
	closed   chan struct{}
	slots    chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	setups map[*net.TCPConn]struct{} // nil once closed
}

func (l *listener) Addr() netip.AddrPort { return addrPort(l.tcp.Addr()) }

func (l *listener) Accept() (rdmacm.Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.mu.Lock()
	if l.setups == nil {
		l.mu.Unlock()
		return net.ErrClosed
	}
	setups := l.setups
	l.setups = nil
	l.mu.Unlock()
	close(l.closed)
	err := l.tcp.Close()
	for sock := range setups {
		sock.Close()
	}
	l.wg.Wait()
	return err
}

// acceptPause is how long the listener waits when the process is out of
// descriptors or memory.
const acceptPause = 50 * time.Millisecond

func (l *listener) serve() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return
		}
		sock, err := l.tcp.AcceptTCP()
		if err != nil {
			<-l.slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-time.After(acceptPause):
			case <-l.closed:
			}
			continue
		}
		l.mu.Lock()
		if l.setups == nil {
			l.mu.Unlock()
			sock.Close()
			return
		}
		l.setups[sock] = struct{}{}
		l.wg.Go(func() { l.setUp(sock) })
		l.mu.Unlock()
	}
}

// setUp receives the request of a new connection and hands it to Accept.
func (l *listener) setUp(sock *net.TCPConn) {
	defer func() { <-l.slots }()
	deadline := time.Now().Add(l.p.cfg.SetupTimeout)
	sock.SetDeadline(deadline)
	peer, local := addrPort(sock.RemoteAddr()), addrPort(sock.LocalAddr())
	f, err := readFrame(sock, false)
	// From here on Close reaches this goroutine by l.closed, and the socket may
	// be another's.
	l.forget(sock)
	if err == nil {
		r := &request{p: l.p, sock: sock, frame: f, peer: peer, local: local, deadline: deadline}
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case l.requests <- r:
			return
		case <-timer.C:
			err = errors.Join(ErrSetup, rdmacm.ErrTimeout)
		case <-l.closed:
			err = net.ErrClosed
		}
	}
	sock.Close()
	l.p.counters.setupFailed.Add(1)
	l.p.event(Event{Kind: EventSetupFailed, Peer: peer, Local: local, Err: err})
}

func (l *listener) forget(sock *net.TCPConn) {
	l.mu.Lock()
	delete(l.setups, sock)
	l.mu.Unlock()
}
