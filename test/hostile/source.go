package hostile

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// HonestAddress is the address of honest clients, which the kernel chooses on loopback.
var HonestAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Strangers returns a function that gives peers n addresses in turn. None of them is the honest
// client's address or a daemon's.
func Strangers(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom4([4]byte{127, 200 + byte(i>>14), byte(i >> 7 & 0x7f), 1 + byte(i&0x7f)})
	}
}

// HonestAddress6 is the address of honest clients if the daemon has an IPv6 address.
var HonestAddress6 = netip.IPv6Loopback()

// Network6 is the network of daemons and strangers with IPv6: fd00::/16 (RFC 4193).
var Network6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd}), 16)

// Strangers6 returns a function that gives peers n addresses in turn, each in another /64.
func Strangers6(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom16([16]byte{0: 0xfd, 5: 2, 6: byte(i >> 8), 7: byte(i), 15: 1})
	}
}

// Neighbours6 returns a function that gives peers n addresses in turn, all in one /64.
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
// NAT gateway.
func SharedAddress(int) netip.Addr { return HonestAddress }

// dialTimeout is the longest time that a peer waits for a TCP connection.
const dialTimeout = 20 * time.Second

// dial connects from an address. If window is greater than 0, the peer's kernel buffers only
// about that number of bytes that the peer has not read.
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
	// The test opens and closes many connections, so their ports must be free again at once.
	if err := tcp.SetLinger(0); err != nil {
		tcp.Close()
		return nil, err
	}
	return tcp, nil
}

// tie closes a connection when ctx ends, or when the caller calls end.
func tie(ctx context.Context, c net.Conn) (end func()) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	return func() {
		stop()
		c.Close()
	}
}
