package nfs40

import (
	"net/netip"
	"testing"
)

func TestCallbackAddress(t *testing.T) {
	for _, c := range []struct{ netid, address, caller, want string }{
		{"tcp", "10.1.2.3.4.5", "10.1.2.3", "10.1.2.3:1029"},
		{"tcp", "10.1.2.3.4.5", "::ffff:10.1.2.3", "10.1.2.3:1029"},
		{"tcp6", "::ffff:10.1.2.3.4.5", "10.1.2.3", "10.1.2.3:1029"},
		{"tcp6", "fe80::1.0.22", "fe80::1%eth0", "[fe80::1%eth0]:22"},
		{"tcp6", "fe80::1%lo.0.22", "fe80::1%eth0", ""},
		{"udp", "10.1.2.3.4.5", "10.1.2.3", ""},
		{"rdma", "10.1.2.3.4.5", "10.1.2.3", ""},
		{"", "10.1.2.3.4.5", "10.1.2.3", ""},
		{"tcp", "10.1.2.4.4.5", "10.1.2.3", ""},
		{"tcp", "10.1.2.3.0.0", "10.1.2.3", ""},
		{"tcp", "10.1.2.3.256.1", "10.1.2.3", ""},
	} {
		got := callbackAddress(c.netid, c.address, netip.MustParseAddr(c.caller))
		var want netip.AddrPort
		if c.want != "" {
			want = netip.MustParseAddrPort(c.want)
		}
		if got != want {
			t.Errorf("%s %s of %s: %v, want %v", c.netid, c.address, c.caller, got, want)
		}
	}
}

// Whatever callback address a client gives, the server calls only the client's own address.
func FuzzCallbackAddress(f *testing.F) {
	f.Add("tcp", "10.1.2.3.4.5")
	f.Add("tcp6", "::ffff:10.1.2.3.4.5")
	f.Add("tcp6", "fe80::1.0.22")
	caller := netip.MustParseAddr("10.1.2.3")
	f.Fuzz(func(t *testing.T, netid, address string) {
		if a := callbackAddress(netid, address, caller); a.IsValid() && (a.Addr() != caller || a.Port() == 0) {
			t.Errorf("%q %q leads to %v", netid, address, a)
		}
	})
}
