package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Listen starts to accept connections at addr, on each device that carries the address. [::]
// stands for all addresses of both families, as with TCP.
//
// If a device is removed and comes back, the listener uses it again. If Config.Skip is set,
// Listen succeeds even if no device exists yet.
func (p *Provider) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	l := &listener{
		p: p, addr: addr, requests: make(chan *request), closed: make(chan struct{}), all: make(map[netip.Addr]*bound),
		told: make(map[netip.Addr]string),
	}
	if p.cfg.Skip == nil {
		at := []netip.Addr{addr.Addr()}
		if at[0] == netip.IPv6Unspecified() {
			at = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
		}
		for _, a := range at {
			if err := l.add(a); err != nil {
				l.Close()
				return nil, err
			}
		}
		if addr.Addr().IsUnspecified() {
			return l, nil // the kernel also listens on devices that are added later
		}
	}
	l.look()
	l.looking.Go(func() {
		t := time.NewTicker(lookInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				l.look()
			case <-l.closed:
				return
			}
		}
	})
	return l, nil
}

// A listener listens on some addresses, at one port.
type listener struct {
	p        *Provider
	addr     netip.AddrPort
	requests chan *request
	closed   chan struct{}
	once     sync.Once
	looking  sync.WaitGroup

	mu  sync.Mutex
	all map[netip.Addr]*bound // nil when the listener is closed
	// told holds, for each address, the last logged message about a failure to listen there. Only
	// the goroutine that runs look uses it.
	told map[netip.Addr]string
}

// add listens on one more address. If port 0 was requested, the first address gets a free port,
// and the other addresses use the same.
func (l *listener) add(at netip.Addr) error {
	b, err := l.bind(netip.AddrPortFrom(at, l.Addr().Port()))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		b.close()
		return net.ErrClosed
	}
	l.addr = netip.AddrPortFrom(l.addr.Addr(), b.addr.Port())
	l.all[at] = b
	return nil
}

func (l *listener) Limits() rdmacm.Limits { return l.p.Limits() }

func (l *listener) Addr() netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
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
	l.once.Do(func() {
		close(l.closed)
		l.mu.Lock()
		all := l.all
		l.all = nil
		l.mu.Unlock()
		for _, b := range all {
			b.close()
		}
		l.looking.Wait()
	})
	return nil
}

// lookInterval is the time between two checks of the machine's addresses and devices.
const lookInterval = time.Second

// addresses returns the address wanted, or if it is unspecified, all addresses of this machine for
// which it stands, except loopback and link-local ones. Some of them may have no RDMA device.
func addresses(wanted netip.Addr) []netip.Addr {
	if !wanted.IsUnspecified() {
		return []netip.Addr{wanted}
	}
	all, _ := net.InterfaceAddrs()
	var found []netip.Addr
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		at := prefix.Addr().Unmap()
		if err == nil && !at.IsLoopback() && !at.IsLinkLocalUnicast() && !(wanted.Is4() && !at.Is4()) {
			found = append(found, at)
		}
	}
	return found
}

// carrier returns the device that carries an address. ok is false if there is none, or if
// Config.Skip excludes it.
func (p *Provider) carrier(at netip.Addr) (a device.Attributes, ok bool) {
	d, err := p.channel.Carrier(at)
	if err != nil {
		return a, false
	}
	defer d.Close()
	a = d.Attributes()
	return a, p.cfg.Skip == nil || !p.cfg.Skip(&a)
}

// Own returns the addresses at which this machine can reach a listener of its own. The parameter at is
// the listener's address. The results are addresses of devices whose port carries traffic. Some devices
// carry no connections from the machine to itself. Only an attempt to connect shows that.
func (p *Provider) Own(at netip.AddrPort) (own []netip.AddrPort) {
	for _, a := range addresses(at.Addr()) {
		if d, ok := p.carrier(a); ok && d.Active {
			own = append(own, netip.AddrPortFrom(a, at.Port()))
		}
	}
	return own
}

// look starts listening on new addresses, and stops listening on addresses that have gone. An ID stays
// with the device that carried its address when it was bound. So if another device carries the address
// now, as after the failover of a bond, look binds the address anew.
func (l *listener) look() {
	found := make(map[netip.Addr]device.Attributes)
	for _, at := range addresses(l.addr.Addr()) {
		if d, ok := l.p.carrier(at); ok {
			found[at] = d
		}
	}
	l.mu.Lock()
	var gone []*bound
	for at, b := range l.all {
		d, ok := found[at]
		if b.device == 0 {
			b.device = d.Device
		}
		if ok && b.device == d.Device && !b.removed.Load() {
			delete(found, at)
		} else {
			gone = append(gone, b)
			delete(l.all, at)
		}
	}
	l.mu.Unlock()
	for _, b := range gone {
		l.p.cfg.Log(fmt.Sprintf("RDMA on %v has ended: its device does not carry it any more", b.addr))
		b.close()
	}
	for at, d := range found {
		err := l.add(at)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if text := fmt.Sprintf("cannot listen on %v, device %s: %v", netip.AddrPortFrom(at, l.addr.Port()), d.Name, err); l.told[at] != text {
				l.told[at] = text
				l.p.cfg.Log(text)
			}
		} else {
			delete(l.told, at)
			l.p.cfg.Log(fmt.Sprintf("serving RDMA on %v, device %s", netip.AddrPortFrom(at, l.addr.Port()), d.Name))
		}
	}
}
