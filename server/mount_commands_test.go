package server

import (
	"net/netip"
	"os/exec"
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
	const overRDMA, overTCP = "# Over RDMA, from another machine (which needs the module siw: docs/mounting.md):", "# Over TCP:"
	for _, c := range []struct {
		name      string
		only3     bool
		export    string
		rdma, tcp []netip.AddrPort
		want      []string
	}{
		{"every address, NFSv3 alone", true, "/x", listen("[::]:20049"), listen("[::]:2049"), []string{
			overRDMA,
			"mount -t nfs -o vers=3,proto=rdma,port=20049,nolock,mountport=2049,mountproto=tcp 192.0.2.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=rdma6,port=20049,nolock,mountport=2049,mountproto=tcp6 '[2001:db8::1]:/x' /mnt",
			overTCP,
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 127.0.0.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp 192.0.2.1:/x /mnt",
			"mount -t nfs -o vers=3,proto=tcp6,port=2049,nolock,mountport=2049,mountproto=tcp6 '[2001:db8::1]:/x' /mnt",
		}},
		{"one address, other ports, NFSv3 alone", true, "/x", listen("192.0.2.1:20050"), listen("192.0.2.1:3049"), []string{
			overRDMA,
			"mount -t nfs -o vers=3,proto=rdma,port=20050,nolock,mountport=3049,mountproto=tcp 192.0.2.1:/x /mnt",
			overTCP,
			"mount -t nfs -o vers=3,proto=tcp,port=3049,nolock,mountport=3049,mountproto=tcp 192.0.2.1:/x /mnt",
		}},
		{"no RDMA, no IPv6, NFSv3 alone", true, "/a b", nil, listen("0.0.0.0:2049"), []string{
			overTCP,
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp '127.0.0.1:/a b' /mnt",
			"mount -t nfs -o vers=3,proto=tcp,port=2049,nolock,mountport=2049,mountproto=tcp '192.0.2.1:/a b' /mnt",
		}},
		{"nothing to ask MOUNT by, NFSv3 alone", true, "/x", listen("[::]:20049"), nil, []string{
			"# Nothing can be mounted: for NFSv3, Linux asks for the export by TCP, and this server does not listen for TCP (--tcp).",
		}},
		{"every address", false, "/x", listen("[::]:20049"), listen("[::]:2049"), []string{
			overRDMA,
			"mount -t nfs -o proto=rdma,port=20049 192.0.2.1:/x /mnt",
			"mount -t nfs -o proto=rdma6,port=20049 '[2001:db8::1]:/x' /mnt",
			overTCP,
			"mount -t nfs -o proto=tcp,port=2049 127.0.0.1:/x /mnt",
			"mount -t nfs -o proto=tcp,port=2049 192.0.2.1:/x /mnt",
			"mount -t nfs -o proto=tcp6,port=2049 '[2001:db8::1]:/x' /mnt",
		}},
		{"RDMA alone", false, "/x", listen("192.0.2.1:20049"), nil, []string{
			overRDMA, "mount -t nfs -o proto=rdma,port=20049 192.0.2.1:/x /mnt",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mountCommands(c.export, c.only3, c.rdma, c.tcp, own); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A shell returns a quoted name unchanged, whatever characters it has.
func TestShellWord(t *testing.T) {
	for _, s := range []string{"/plain", "a b", "it's", "$HOME `id` \"x\"", "new\nline", "[::1]:/*", "~", ";", "\\", "é"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellWord(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q comes out as %q, %v", s, out, err)
		}
	}
	if w := shellWord("192.0.2.1:/srv/data-1"); strings.Contains(w, "'") {
		t.Errorf("%s is quoted without need", w)
	}
}
