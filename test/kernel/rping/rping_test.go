//go:build kernel

package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestMain also runs rping's server or client, if the arguments say so, because the lab starts
// the test program itself in its network.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 5 && os.Args[1] == "serve":
		serve(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 5 && os.Args[1] == "dial":
		dial(os.Args[2], os.Args[3], os.Args[4])
	default:
		os.Exit(m.Run())
	}
}

// rping in the guest can connect to the software RNIC, and gets the same data back that it sent.
func TestSIWConnects(t *testing.T) {
	n := lab.NewNetwork(t)
	for i, how := range [][]string{{"peer", "auto"}, {"on", "auto"}, {"peer", "mss"}, {"on", "4096"}} {
		port := 7174 + i
		command := append([]string{os.Args[0], "serve", fmt.Sprintf("%s:%d", lab.Host, port)}, how...)
		server := lab.StartServer(t, n, "rping server", command, port)
		t.Cleanup(server.Kill)
	}
	out := lab.Run(t, n, lab.Options{Limit: 2 * time.Minute}, `
		software_rdma
		greet $SERVER
		for port in 7174 7175 7176 7177; do
			for size in 23 64 4096 60001; do
				must timeout 30 rping -c -a $SERVER -p $port -C 50 -S $size -V
			done
		done
		event compared`)
	if !bytes.Contains([]byte(out), []byte("compared")) {
		t.Errorf("the guest printed:\n%s", out)
	}
}

// The software RNIC can connect to rping in the guest.
func TestSIWListens(t *testing.T) {
	n := lab.NewNetwork(t)
	g := lab.Boot(t, n, lab.Options{Limit: 2 * time.Minute}, `
		software_rdma
		timeout 90 rping -s -P -a $ADDRESS -p 7174 &
		until listening 7174; do sleep 0.1; done
		event listening
		await leave
		kill %1; wait`)
	g.Await("listening")
	for _, how := range [][]string{{"off", "auto"}, {"on", "auto"}, {"off", "mss"}, {"peer", "4096"}} {
		out, err := n.Command(os.Args[0], append([]string{"dial", g.Address() + ":7174"}, how...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", how, err, out)
		}
	}
	g.Signal("leave")
	g.Succeed()
}

// dial is rping's client. It advertises one buffer for the server to read and one for the server
// to write, and compares them.
func dial(addr, crc, fpdu string) {
	m := newMessages()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := device(crc, fpdu).Dial(ctx, netip.MustParseAddrPort(addr), param(m))
	if err != nil {
		die("dial", err)
	}
	// rping uses 64 bytes by default.
	const size = 64
	for round := range 20 {
		// rping treats the data as a string, and writes back only the bytes up to its terminating
		// zero.
		source, sink := append(bytes.Repeat([]byte{byte('a' + round)}, size-1), 0), make([]byte, size)
		if err := errors.Join(show(c, m, source, rdmacm.RemoteRead), show(c, m, sink, rdmacm.RemoteWrite)); err != nil {
			die("round", err)
		}
		if !bytes.Equal(source, sink) {
			die("compare", fmt.Errorf("round %d: %q came back", round, sink))
		}
	}
	c.Disconnect()
	<-c.Done()
}

// show advertises memory to the server and waits until the server has used it.
func show(c rdmacm.Conn, m *messages, memory []byte, access rdmacm.Access) error {
	r, err := c.Register(memory, access)
	if err != nil {
		return err
	}
	if err := do(c, rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{putAdvert(r, len(memory))}}); err != nil {
		return err
	}
	select {
	case _, ok := <-m.received:
		if !ok {
			return <-m.closed
		}
	case <-time.After(20 * time.Second):
		return rdmacm.ErrTimeout
	}
	c.Provide(1, advertSize)
	return r.Deregister()
}
