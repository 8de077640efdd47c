package server

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// The server registers one listening address of each netid with rpcbind.
func TestMappings(t *testing.T) {
	tcp := &running{transport: transportOf("tcp")}
	for _, a := range []string{"192.0.2.1:2049", "192.0.2.2:2049", "[::]:3049"} {
		tcp.listeners = append(tcp.listeners, &listener{addr: netip.MustParseAddrPort(a)})
	}
	s := &Server{cfg: &config.Config{NFS: config.NFS{Versions: []string{"3"}}}, transports: []*running{tcp}}
	var got []string
	for _, m := range s.mappings(func(p *program) bool { return !p.locks() }) {
		got = append(got, strings.Join([]string{m.Netid, m.Address.String()}, " "))
	}
	// Only the first address of each netid is registered.
	one := []string{"tcp 192.0.2.1:2049", "tcp6 [::]:3049"}
	if want := append(one, one...); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A listener on 0.0.0.0 accepts connections to every IPv4 address, and none over IPv6.
func TestFamilyOfAnAddress(t *testing.T) {
	for addr, want := range map[string]string{"0.0.0.0:0": "tcp4", "127.0.0.1:0": "tcp4", "[::]:0": "tcp", "[::1]:0": "tcp"} {
		l, err := new(tcpCarrier).listen(netip.MustParseAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		if got := network(netip.MustParseAddrPort(addr)); got != want || l.addr.Addr() != netip.MustParseAddrPort(addr).Addr() {
			t.Errorf("%s is listened on as %s at %s, want %s", addr, got, l.addr, want)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}
