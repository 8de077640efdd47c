package server

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestMountCommands(t *testing.T) {
	own := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::ffff:192.0.2.1"),
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::1"),
	}
	listen := func(all ...string) (out []netip.AddrPort) {
		for _, a := range all {
			out = append(out, netip.MustParseAddrPort(a))
		}
		return out
	}
	for _, c := range []struct {
		name      string
		rdma, tcp []netip.AddrPort
		want      []string
	}{
		{"every address", listen("[::]:20049"), listen("[::]:2049"), []string{
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 127.0.0.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=rdma,port=20049,nolock,mountport=2049,mountproto=tcp 192.0.2.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 192.0.2.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=rdma6,port=20049,nolock,mountport=2049,mountproto=tcp6 [2001:db8::1]:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp6,port=2049,nolock,mountport=2049,mountproto=tcp6 [2001:db8::1]:/x /mnt",
		}},
		{"one address, other ports", listen("192.0.2.1:20050"), listen("192.0.2.1:3049"), []string{
			"mount -t nfs -o vers=3,proto=rdma,port=20050,nolock,mountport=3049,mountproto=tcp 192.0.2.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=3049,nolock,mountport=3049,mountproto=tcp 192.0.2.1:/x /mnt",
		}},
		{"no RDMA, no IPv6", nil, listen("0.0.0.0:2049"), []string{
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 127.0.0.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 192.0.2.1:/x /mnt",
		}},
		{"nothing to ask MOUNT by", listen("[::]:20049"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mountCommands("/x", c.rdma, c.tcp, own); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// What rpcbind is told is what is listened on.
func TestMappings(t *testing.T) {
	listen := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:2049"), netip.MustParseAddrPort("192.0.2.2:2049"), netip.MustParseAddrPort("[::]:3049")}
	var got []string
	for _, m := range mappings(listen, nil) {
		got = append(got, strings.Join([]string{m.Netid, m.Address.String()}, " "))
	}
	// The first address of a netid counts.
	one := []string{"tcp 192.0.2.1:2049", "tcp6 [::]:3049"}
	if want := append(one, one...); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
