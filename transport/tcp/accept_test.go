package tcp

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// failsOnce is a listener whose accept(2) fails once.
type failsOnce struct {
	net.Listener
	errno  syscall.Errno
	failed bool
}

func (l *failsOnce) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", l.errno)}
	}
	return l.Listener.Accept()
}

// A server goes on accepting after accept(2) has failed: by a shortage, by a network error that
// the new socket already had, or by a rule of the firewall. Only closing the listener ends it.
func TestServerOutlivesFailedAccepts(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EPROTO, syscall.EHOSTUNREACH, syscall.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, Config{})
			cfg := b.cfg
			cfg.Pool = b.pool
			cfg.RPC, _ = toyServer(t)
			defer cfg.RPC.Close()
			s := NewServer(cfg)
			defer s.Close()
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(&failsOnce{Listener: l, errno: errno}) }()
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if err := bump(nc, 1); err != nil {
				t.Errorf("a connection behind the failed one is not served: %v", err)
			}
			l.Close()
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("its listener is closed, and Serve returns %v", err)
			}
		})
	}
}
