package client

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

func TestSplitHostPort(t *testing.T) {
	for _, c := range []struct {
		in, host string
		port     int
		bad      bool
	}{
		{in: "server", host: "server"},
		{in: "server:2049", host: "server", port: 2049},
		{in: "192.0.2.1:20049", host: "192.0.2.1", port: 20049},
		{in: "2001:db8::1", host: "2001:db8::1"},
		{in: "[2001:db8::1]", host: "2001:db8::1"},
		{in: "[2001:db8::1]:2049", host: "2001:db8::1", port: 2049},
		{in: "", bad: true},
		{in: ":2049", bad: true},
		{in: "server:", bad: true},
		{in: "server:nfs", bad: true},
		{in: "server:0", bad: true},
		{in: "server:65536", bad: true},
		{in: "[2001:db8::1", bad: true},
		{in: "[2001:db8::1]2049", bad: true},
	} {
		host, port, err := SplitHostPort(c.in)
		if (err != nil) != c.bad || err == nil && (host != c.host || port != c.port) {
			t.Errorf("%q is %q port %d: %v", c.in, host, port, err)
		}
	}
}

func TestSplitExport(t *testing.T) {
	for _, c := range []struct {
		in, host, path string
		port           int
		bad            bool
	}{
		{in: "server:/srv/data", host: "server", path: "/srv/data"},
		{in: "server:/", host: "server", path: "/"},
		{in: "[2001:db8::1]:/x", host: "2001:db8::1", path: "/x"},
		{in: "server:/a:/b", host: "server", path: "/a:/b"},
		{in: "server", bad: true},
		{in: ":/x", bad: true},
		{in: "server:2050:/x", host: "server", port: 2050, path: "/x"},
		{in: "[2001:db8::1]:2050:/x", host: "2001:db8::1", port: 2050, path: "/x"},
		{in: "server:/a:2050:/b", host: "server", path: "/a:2050:/b"},
		{in: "server:0:/x", bad: true},
		{in: "server:x:/x", bad: true},
	} {
		host, port, path, err := SplitExport(c.in)
		if (err != nil) != c.bad || err == nil && (host != c.host || port != c.port || path != c.path) {
			t.Errorf("%q is %q port %d path %q: %v", c.in, host, port, path, err)
		}
	}
}

func TestParseTransport(t *testing.T) {
	for in, want := range map[string]Transport{"tcp": TCP, "rdma": RDMA, "": "", "udp": "", "TCP": ""} {
		if got, err := ParseTransport(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", in, got, err)
		}
	}
}

// Dial does not take a wrong version of RPC-over-RDMA for version 1.
func TestDialRefusesAWrongVersion(t *testing.T) {
	_, err := Dial(t.Context(), Target{Transport: RDMA, Host: "127.0.0.1", Port: 1, RDMAVersion: "3"})
	if err == nil || !strings.Contains(err.Error(), "none of 1, 2, newest") {
		t.Error(err)
	}
}

// An AUTH_SYS credential has the first groups and the beginning of the machine name, up to its limits.
func TestIdentityKeepsToTheLimits(t *testing.T) {
	for _, n := range []int{0, rpc.MaxGroups - 1, rpc.MaxGroups, rpc.MaxGroups + 1, 1000} {
		for _, length := range []int{0, rpc.MaxMachineName, rpc.MaxMachineName + 1} {
			groups := make([]int, n)
			for i := range groups {
				groups[i] = 100 + i
			}
			got := identityOf(strings.Repeat("n", length), 1, 2, groups)
			var kept []uint32
			for _, g := range groups[:min(n, rpc.MaxGroups)] {
				kept = append(kept, uint32(g))
			}
			want, err := rpc.AuthSysCred(uint32(os.Getpid()), strings.Repeat("n", min(length, rpc.MaxMachineName)), 1, 2, kept)
			if err != nil || !bytes.Equal(got.Body, want.Body) {
				t.Errorf("%d groups and a name of %d bytes: %x, want %x (%v)", n, length, got.Body, want.Body, err)
			}
		}
	}
}
