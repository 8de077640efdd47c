package tcp

import (
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// The sweep finds a reset that the poller reports together with the last bytes, so the connection
// does not stay for ever.
func TestResetBehindTheLastBytesIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	raw, err := b.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	s := newSocket(b.(*net.TCPConn), raw)
	if reset, closed := s.gone(); reset || closed {
		t.Fatal("a live peer is gone")
	}
	if _, err := a.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if reset, closed := s.gone(); reset || closed {
		t.Fatal("a peer that sent something is gone")
	}
	a.(*net.TCPConn).SetLinger(0)
	a.Close()
	await.Until(t, "the reset is seen", func() bool {
		reset, _ := s.gone()
		return reset
	})
}
