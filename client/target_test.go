package client

import "testing"

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
		bad            bool
	}{
		{in: "server:/srv/data", host: "server", path: "/srv/data"},
		{in: "server:/", host: "server", path: "/"},
		{in: "[2001:db8::1]:/x", host: "2001:db8::1", path: "/x"},
		{in: "server:/a:/b", host: "server", path: "/a:/b"},
		{in: "server", bad: true},
		{in: ":/x", bad: true},
		{in: "server:2049:/x", bad: true},
	} {
		host, path, err := SplitExport(c.in)
		if (err != nil) != c.bad || err == nil && (host != c.host || path != c.path) {
			t.Errorf("%q is %q path %q: %v", c.in, host, path, err)
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
