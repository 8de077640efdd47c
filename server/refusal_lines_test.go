package server_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// Each refused mount of a client has a line with its reason, also if another one was refused for another
// reason a moment before.
func TestEachReasonOfARefusedMountIsLogged(t *testing.T) {
	ctx := testContext(t)
	d := startReloading(t, t.TempDir()+" /open rw", t.TempDir()+" /payroll clients=203.0.113.0/24")
	c, err := client.Dial(ctx, client.Target{Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Transport: client.TCP, Cred: client.Self()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, path := range []string{"/opne", "/payroll"} {
		if _, err := c.MountRoot(ctx, path, int(d.tcp.Port())); err == nil {
			t.Fatal(path, " is mounted")
		}
	}
	d.AwaitLine("mount refused")
	d.Signal(syscall.SIGTERM)
	d.Wait()
	for _, path := range []string{"/opne", "/payroll"} {
		if !strings.Contains(d.Output(), fmt.Sprintf("\"path\": %q", path)) {
			t.Errorf("no line about %s in\n%s", path, d.Output())
		}
	}
}

// nullCall is a call of NFS NULL as a client of NFS over TCP sends it.
var nullCall = []byte{0x80, 0, 0, 40, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// Clients at the wrong port, however many, hide no line about a refused mount.
func TestScannersHideNoRefusal(t *testing.T) {
	ctx := testContext(t)
	d := startReloading(t, t.TempDir()+" /open rw")
	var ended sync.WaitGroup
	for i := range 140 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i/200), byte(1+i%200))}}
		c, err := dialer.DialContext(ctx, "tcp", d.rdma.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(nullCall); err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		})
	}
	ended.Wait()
	c, err := client.Dial(ctx, client.Target{Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Transport: client.TCP, Cred: client.Self()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.MountRoot(ctx, "/opne", int(d.tcp.Port())); err == nil {
		t.Fatal("it is mounted")
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if !strings.Contains(d.Output(), "mount refused") {
		t.Errorf("no line about the refused mount, %d lines about strangers", strings.Count(d.Output(), "by a fault"))
	}
}
