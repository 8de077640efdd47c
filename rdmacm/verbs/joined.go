package verbs

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A joined listener is several listeners of one port.
type joined struct {
	p        *Provider
	addr     netip.AddrPort
	requests chan rdmacm.Request
	closed   chan struct{}
	once     sync.Once
	ended    sync.WaitGroup

	mu  sync.Mutex
	all map[netip.Addr]*listener // nil: closed
	// told is what the log was told of addresses that cannot be listened on. Only the
	// goroutine that looks uses it.
	told map[netip.Addr]string
}

func (p *Provider) join(addr netip.AddrPort) *joined {
	return &joined{
		p: p, addr: addr, requests: make(chan rdmacm.Request), closed: make(chan struct{}), all: make(map[netip.Addr]*listener),
		told: make(map[netip.Addr]string),
	}
}

// listenBoth listens on every address of both families.
func (p *Provider) listenBoth(port uint16) (rdmacm.Listener, error) {
	j := p.join(netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	for _, at := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if err := j.add(at); err != nil {
			j.Close()
			return nil, err
		}
	}
	return j, nil
}

// add listens on one address more. The first one decides about the port.
func (j *joined) add(at netip.Addr) error {
	l, err := j.p.listen(netip.AddrPortFrom(at, j.addr.Port()))
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all == nil {
		l.Close()
		return net.ErrClosed
	}
	if j.addr.Port() == 0 {
		j.addr = netip.AddrPortFrom(j.addr.Addr(), l.Addr().Port())
	}
	j.all[at] = l
	j.ended.Go(func() {
		for {
			r, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case j.requests <- r:
			case <-j.closed:
				r.Reject(nil)
			}
		}
	})
	return nil
}

func (j *joined) Limits() rdmacm.Limits { return j.p.Limits() }

func (j *joined) Addr() netip.AddrPort {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.addr
}

func (j *joined) Accept() (rdmacm.Request, error) {
	select {
	case r := <-j.requests:
		return r, nil
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

func (j *joined) Close() error {
	j.once.Do(func() {
		close(j.closed)
		j.mu.Lock()
		all := j.all
		j.all = nil
		j.mu.Unlock()
		for _, l := range all {
			l.Close()
		}
		j.ended.Wait()
	})
	return nil
}

// lookInterval is how often addresses and devices are looked for that have come or gone.
const lookInterval = time.Second

// listenEverywhere listens on each address that a device carries which is not to be skipped.
// There may be none yet.
func (p *Provider) listenEverywhere(addr netip.AddrPort) (rdmacm.Listener, error) {
	j := p.join(addr)
	j.look()
	j.ended.Go(func() {
		t := time.NewTicker(lookInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				j.look()
			case <-j.closed:
				return
			}
		}
	})
	return j, nil
}

// look begins to listen on addresses that are new, and ends that on those that have gone.
func (j *joined) look() {
	found := make(map[netip.Addr]string)
	all, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		at := prefix.Addr().Unmap()
		if err != nil || at.IsLoopback() || at.IsLinkLocalUnicast() || j.addr.Addr().Is4() && !at.Is4() {
			continue
		}
		if d, err := j.p.channel.Carrier(at); err == nil && !j.p.cfg.Skip(&d) {
			found[at] = d.Name
		}
	}
	j.mu.Lock()
	var gone []*listener
	for at, l := range j.all {
		if _, ok := found[at]; ok {
			delete(found, at)
		} else {
			gone = append(gone, l)
			delete(j.all, at)
		}
	}
	j.mu.Unlock()
	for _, l := range gone {
		j.p.cfg.Log(fmt.Sprintf("RDMA on %v has ended: no device carries the address any more", l.Addr()))
		l.Close()
	}
	for at, name := range found {
		if err := j.add(at); err != nil {
			if text := fmt.Sprintf("cannot listen on %v, device %s: %v", netip.AddrPortFrom(at, j.addr.Port()), name, err); j.told[at] != text {
				j.told[at] = text
				j.p.cfg.Log(text)
			}
		} else {
			delete(j.told, at)
			j.p.cfg.Log(fmt.Sprintf("serving RDMA on %v, device %s", netip.AddrPortFrom(at, j.addr.Port()), name))
		}
	}
}
