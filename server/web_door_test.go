package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// Silent connections to the metrics and to the status page, however many, use few of the daemon's descriptors, and give
// way to a request. A connection that has asked once, and asks nothing more, gives way as well.
func TestWebConnectionsAreBounded(t *testing.T) {
	t.Run("metrics", func(t *testing.T) { boundedConnections(t, "metrics", "/metrics", "nfsrdmad_connections") })
	t.Run("status page", func(t *testing.T) { boundedConnections(t, "status_page", "/", ">serving<") })
}

// boundedConnections makes many connections to the address of a key. shows is a part of what the daemon answers at path.
func boundedConnections(t *testing.T, key, path, shows string) {
	at := servertest.FreePort(t, ownLoopback())
	config := writeFile(t, "nfsrdmad.toml", fmt.Sprintf("%s = %q\n", key, at))
	d := start(t, "rw,insecure,no_root_squash", "--config", config)
	for i := range 200 {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			continue
		}
		if _, err := io.WriteString(c, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if text := webPage(t, "http://"+at.String()+path); !strings.Contains(text, shows) {
		t.Errorf("a request beside 200 connections is answered with %q", text)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, f := range open {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", d.PID(), f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	if sockets > 50 {
		t.Errorf("the daemon has %d sockets open beside 200 silent connections to this address", sockets)
	}
	ctx := testContext(t)
	for transport, c := range d.dialBoth(t) {
		if _, err := c.Mount(ctx, "/"); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
}
