package tcp

import (
	"context"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

func TestSuite(t *testing.T) {
	f := start(t, Config{})
	rpctest.Suite(t, f.rpc, f.program, func(t *testing.T) rpc.Caller { return f.dial(DialConfig{}) })
}

// The rules of rpctest.Suite hold with Gather.
func TestSuiteGathering(t *testing.T) {
	f := start(t, Config{Gather: true})
	rpctest.Suite(t, f.rpc, f.program, func(t *testing.T) rpc.Caller { return f.dial(DialConfig{}) })
}

// The rules of rpctest.Suite hold on a stream that is not a socket.
func TestSuiteWithoutSockets(t *testing.T) {
	f := start(t, Config{})
	rpctest.Suite(t, f.rpc, f.program, func(t *testing.T) rpc.Caller {
		near, far := net.Pipe()
		f.serve(far)
		c := NewConn(near, DialConfig{})
		f.Cleanup(c.Close)
		return c
	})
}

// The rules of rpctest.Suite hold on sockets of a kernel that does not report the bytes left to
// read (TCP_INQ).
func TestSuiteWithoutHint(t *testing.T) {
	f := start(t, Config{})
	blind := func(nc net.Conn) stream {
		s := newStream(nc).(*socket)
		s.inq = false
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_INQ, 0); err != nil {
			t.Error(err)
		}
		return s
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	var wg sync.WaitGroup
	go func() {
		defer close(served)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { newConn(&f.cfg, &f.count, blind(nc), f.rpc, f.rpc.NewConn(client, client, "tcp", true)).run() })
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
		wg.Wait()
	})
	rpctest.Suite(t, f.rpc, f.program, func(t *testing.T) rpc.Caller {
		c, err := Dial(context.Background(), l.Addr().String(), DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	})
}
