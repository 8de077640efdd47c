package hostile

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Callbacks40 are peers that each create Clients NFSv4.0 clients. Each client names a callback
// address: a port of the peer where nothing answers, a port of another machine, the daemon's TCP
// port, or the daemon's RDMA port number at the peer's address.
//
// Each peer costs the daemon some of the connections that it may have for callbacks, and the memory
// of clients without state.
type Callbacks40 struct {
	Peers, Clients int
	// Silent listens at every peer's address and never answers.
	Silent *SilentListeners
}

// SilentListeners accept connections and send nothing.
type SilentListeners struct {
	// Open is the present number of connections, Most the largest number so far. Strays counts
	// connections to strayAddress, which belongs to no client.
	Open, Most, Strays atomic.Int64
	own                []net.Listener
	stray              net.Listener
}

func (b Callbacks40) String() string {
	return fmt.Sprintf("%d addresses with %d NFSv4.0 clients each, whose callbacks nobody answers", b.Peers, b.Clients)
}

// strayAddress is the address of a machine that is neither the daemon nor a client.
var strayAddress = netip.AddrFrom4([4]byte{127, 199, 9, 9})

// Listen listens at the addresses of n peers, and at strayAddress.
func (s *SilentListeners) Listen(n int, source func(i int) netip.Addr) error {
	listen := func(at netip.Addr, each func(c net.Conn)) (net.Listener, error) {
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go each(c)
			}
		}()
		return l, nil
	}
	for i := range n {
		l, err := listen(source(i), func(c net.Conn) {
			defer c.Close()
			if n := s.Open.Add(1); n > s.Most.Load() {
				s.Most.Store(n)
			}
			defer s.Open.Add(-1)
			_ = hold(c)
		})
		if err != nil {
			return err
		}
		s.own = append(s.own, l)
	}
	var err error
	s.stray, err = listen(strayAddress, func(c net.Conn) {
		s.Strays.Add(1)
		c.Close()
	})
	return err
}

// Close closes the listeners.
func (s *SilentListeners) Close() {
	for _, l := range append(s.own, s.stray) {
		if l != nil {
			l.Close()
		}
	}
}

// universal returns an address as a universal address (RFC 5665 §5.2.3.3).
func universal(a netip.AddrPort) []byte {
	return fmt.Appendf(nil, "%v.%d.%d", a.Addr(), a.Port()>>8, a.Port()&255)
}

// introduce creates and confirms an NFSv4.0 client ID for this name, with a callback address.
func (c *client4) introduce(name []byte, called netip.AddrPort) error {
	d, err := c.do(op4{wire.OpSetClientID, &wire.SetClientID4Args{
		Client:   wire.NFSClientID4{ID: name, Verifier: c.verifier},
		Callback: wire.CBClient4{CBProgram: 0x40000000, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: universal(called)}},
	}})
	if err != nil {
		return err
	}
	d.Skip(4)
	var res wire.SetClientID4Res
	res.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	c.id = res.ResOK.Clientid
	_, err = c.do(op4{wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{
		Clientid: res.ResOK.Clientid, SetclientidConfirm: res.ResOK.SetclientidConfirm,
	}})
	return err
}

// Start implements Behaviour.
func (b Callbacks40) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		conn, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, conn)()
		c := &client4{link: tcpLink(conn)}
		at := func(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }
		for n := range b.Clients {
			to := at(b.Silent.own[i])
			switch n % 4 {
			case 1:
				to = at(b.Silent.stray)
			case 2:
				to = target.TCP
			case 3:
				to = netip.AddrPortFrom(target.Source(i), target.RDMA.Port())
			}
			if err := c.introduce(fmt.Appendf(nil, "called %d %d", i, n), to); err != nil {
				return err
			}
		}
		stands()
		return hold(conn)
	})
}
