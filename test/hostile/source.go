package hostile

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// HonestAddress is the address of honest clients: the one that the kernel chooses on loopback.
var HonestAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Strangers gives peers n addresses in turn, none of them the honest client's or
// a daemon's.
func Strangers(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom4([4]byte{127, 200 + byte(i>>14), byte(i >> 7 & 0x7f), 1 + byte(i&0x7f)})
	}
}

// HonestAddress6 is the same for daemons with an address of IPv6.
var HonestAddress6 = netip.IPv6Loopback()

// Network6 is the network of daemons and strangers with IPv6: fd00::/16 (RFC 4193).
var Network6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd}), 16)

// Strangers6 gives peers n addresses in turn, each in a /64 of its own.
func Strangers6(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom16([16]byte{0: 0xfd, 5: 2, 6: byte(i >> 8), 7: byte(i), 15: 1})
	}
}

// Neighbours6 gives peers n addresses in turn, all in one /64.
func Neighbours6(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom16([16]byte{0: 0xfd, 5: 3, 14: byte(i >> 8), 15: byte(i)})
	}
}

func daemon6(a, b byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 5: 1, 6: a, 7: b, 15: 1})
}

// SharedAddress gives all peers the honest client's address, as if all of them were behind one
// address translator.
func SharedAddress(int) netip.Addr { return HonestAddress }

// dialTimeout is the longest time that a peer waits for a TCP connection.
const dialTimeout = 20 * time.Second

// dial connects from an address. If window is greater than 0, the peer's kernel accepts about
// that number of bytes while the peer does not read.
func dial(ctx context.Context, from netip.Addr, to netip.AddrPort, window int) (*net.TCPConn, error) {
	d := net.Dialer{
		Timeout:   dialTimeout,
		KeepAlive: -1,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			ctlErr := raw.Control(func(fd uintptr) {
				if window > 0 {
					err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, window)
				}
			})
			return errors.Join(ctlErr, err)
		},
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn)
	// Many connections come and go, so their ports must be free at once.
	if err := tcp.SetLinger(0); err != nil {
		tcp.Close()
		return nil, err
	}
	return tcp, nil
}

// tie closes a connection at the end of ctx, or by the function that it returns.
func tie(ctx context.Context, c net.Conn) (end func()) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	return func() {
		stop()
		c.Close()
	}
}
