package servertest

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// given are the ports that FreePort has returned.
var given sync.Map

// FreePort returns a port of an address on which no process listens. In one process it returns no port twice, so that two
// services of one daemon get two ports.
func FreePort(t testing.TB, ip netip.Addr) netip.AddrPort {
	t.Helper()
	for {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().(*net.TCPAddr).AddrPort()
		l.Close()
		if _, twice := given.LoadOrStore(at, true); !twice {
			return at
		}
	}
}
