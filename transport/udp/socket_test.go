package udp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/udp"
)

// counter counts the calls that are executed. Procedure 1 must be executed once, and replies the count. Procedure 2 has no
// end before the test completes it, procedure 3 ends the conversation, and the reply of procedure 4 is longer than its call.
type counter struct {
	held  chan *rpc.Call
	known bool
	calls chan *rpc.Conn
}

const number = 400_123

var binding = rpc.Binding{Procedures: []rpc.Procedure{{Name: "NULL"}, {Name: "ONCE", Once: true, MaxResults: 4}, {Name: "HOLD"}, {Name: "END"}, {Name: "LONG", MaxResults: 100}}}

func (*counter) Number() uint32                { return number }
func (*counter) Versions() (uint32, uint32)    { return 1, 1 }
func (*counter) Binding(v uint32) *rpc.Binding { return &binding }
func (c *counter) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	j.Known = c.known
	return rpc.Done
}

func (c *counter) Serve(call *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch call.Header.Procedure {
	case 1:
		w.Uint32(uint32(len(c.calls)))
	case 2:
		call.Detach()
		c.held <- call
		return rpc.Outcome{Pending: true}
	case 4:
		w.FixedOpaque(make([]byte, 100))
	case 3:
		c.calls <- call.Conn
		return rpc.DropAndEnd
	}
	c.calls <- call.Conn
	return rpc.Done
}

func serve(t *testing.T, network, at string, c *counter) *udp.Socket {
	t.Helper()
	server := rpc.NewServer(rpc.Config{})
	server.Register(c)
	to := netip.MustParseAddrPort(at)
	s, err := udp.Listen(network, to, server)
	switch {
	case err != nil && to.Addr().Is6():
		t.Skip(err) // there is no IPv6
	case err != nil:
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		await.Receive(t, "Serve returns", done)
		server.Close()
	})
	return s
}

func call(xid, procedure uint32) []byte {
	return rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: number, Version: 1, Procedure: procedure}, nil)
}

func dial(t *testing.T, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// receive returns the next reply. A connected socket gets none that comes from another address than it has called.
func receive(t *testing.T, c *net.UDPConn) []byte {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 65536)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// A socket for all addresses answers from the one that was called, and tells the program which it was.
func TestRepliesComeFromTheAddressThatWasCalled(t *testing.T) {
	for _, at := range []struct{ network, listen, call string }{
		{"udp4", "0.0.0.0:0", "127.0.0.1"}, {"udp4", "0.0.0.0:0", "127.0.0.7"}, {"udp", "[::]:0", "127.0.0.7"}, {"udp", "[::]:0", "::1"}, {"udp4", "127.0.0.7:0", "127.0.0.7"},
	} {
		t.Run(at.listen+" "+at.call, func(t *testing.T) {
			c := &counter{calls: make(chan *rpc.Conn, 10)}
			s := serve(t, at.network, at.listen, c)
			to := netip.AddrPortFrom(netip.MustParseAddr(at.call), s.Addr().Port())
			peer := dial(t, to)
			if _, err := peer.Write(call(7, 0)); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, peer); binary.BigEndian.Uint32(got) != 7 {
				t.Errorf("reply %x", got)
			}
			conn := await.Receive(t, "the call", c.calls)
			if conn.Local != to || conn.Transport != "udp" || conn.Peer.Port() != uint16(peer.LocalAddr().(*net.UDPAddr).Port) || conn.Privileged {
				t.Errorf("called at %v by %v, over %s", conn.Local, conn.Peer, conn.Transport)
			}
			s.Send(conn.Local, conn.Peer, []byte("of its own"))
			if got := receive(t, peer); string(got) != "of its own" {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// A call that comes again gets the same reply, and is not executed again. What is no call, or too long, gets no answer.
func TestRepeatedDatagrams(t *testing.T) {
	c := &counter{calls: make(chan *rpc.Conn, 10)}
	s := serve(t, "udp4", "127.0.0.1:0", c)
	peer := dial(t, s.Addr())
	var first []byte
	for i := range 3 {
		for _, noise := range [][]byte{{}, []byte("noise"), make([]byte, 9000), append(call(9, 0), make([]byte, 9000)...)} {
			_, _ = peer.Write(noise)
		}
		_, _ = peer.Write(call(7, 1))
		got := receive(t, peer)
		if i == 0 {
			first = got
		}
		if !bytes.Equal(got, first) || binary.BigEndian.Uint32(got) != 7 {
			t.Errorf("reply %x, not %x", got, first)
		}
	}
	if n := len(c.calls); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// A stranger's calls beyond a few a second get no answer, from whichever port. One that has shown a handle of the server may
// make many.
func TestStrangersAreAnsweredSlowly(t *testing.T) {
	for _, known := range []bool{false, true} {
		const calls = 1000
		c := &counter{known: known, calls: make(chan *rpc.Conn, calls)}
		s := serve(t, "udp4", "127.0.0.1:0", c)
		began := time.Now()
		peer := dial(t, s.Addr())
		answers := 0
		for i := range calls {
			_, _ = peer.Write(call(uint32(i), 0))
			_ = peer.SetReadDeadline(time.Now().Add(time.Millisecond))
			if known {
				_ = peer.SetReadDeadline(time.Now().Add(30 * time.Second))
			}
			if _, err := peer.Read(make([]byte, 100)); err == nil {
				answers++
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			} else if known {
				t.Fatalf("call %d of a client has no answer", i)
			}
		}
		if most := 21 + 20*time.Since(began).Seconds(); !known && float64(answers) > most {
			t.Errorf("%d of %d calls of a stranger were answered", answers, calls)
		}
	}
}

// Of the calls of an address that wait, however many come, a bounded number is taken. When they end, others are. Other
// addresses do not notice.
func TestCallsThatWaitAreBounded(t *testing.T) {
	c := &counter{known: true, calls: make(chan *rpc.Conn, 10), held: make(chan *rpc.Call, 1000)}
	s := serve(t, "udp4", "127.0.0.1:0", c)
	answered := func(peer *net.UDPConn, xid uint32) {
		t.Helper()
		_, _ = peer.Write(call(xid, 0))
		if got := receive(t, peer); binary.BigEndian.Uint32(got) != xid {
			t.Errorf("reply %x", got)
		}
	}
	peer := dial(t, s.Addr())
	other, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9)}, net.UDPAddrFromAddrPort(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answered(peer, 1)
	for round := range uint32(3) {
		for i := range uint32(100) {
			_, _ = peer.Write(call(1000*(round+1)+i, 2))
		}
		answered(other, round) // the socket has taken what came before
		if n := len(c.held); n != 64 {
			t.Fatalf("%d calls wait", n)
		}
		for range 64 {
			(<-c.held).Complete(func(*xdr.Writer) rpc.Outcome { return rpc.Done })
			receive(t, peer)
		}
	}
}

// However many ports a client uses, the conversation with one that it goes on to use does not end.
func TestClientsOfManyPorts(t *testing.T) {
	c := &counter{known: true, calls: make(chan *rpc.Conn, 1)}
	s := serve(t, "udp4", "127.0.0.1:0", c)
	ask := func(peer *net.UDPConn) *rpc.Conn {
		_, _ = peer.Write(call(7, 0))
		receive(t, peer)
		return <-c.calls
	}
	first := dial(t, s.Addr())
	conn := ask(first)
	for i := range 100 {
		ask(dial(t, s.Addr()))
		if ask(first) != conn || conn.Gone() {
			t.Fatalf("another conversation after %d more ports", i+1)
		}
	}
}

// A program may end a conversation. The client's next call begins another one.
func TestProgramEndsAConversation(t *testing.T) {
	c := &counter{calls: make(chan *rpc.Conn, 10)}
	s := serve(t, "udp4", "127.0.0.1:0", c)
	peer := dial(t, s.Addr())
	_, _ = peer.Write(call(1, 3))
	conn := await.Receive(t, "the call", c.calls)
	_, _ = peer.Write(call(2, 0))
	receive(t, peer)
	if next := await.Receive(t, "the next call", c.calls); next == conn || !conn.Gone() || next.Gone() {
		t.Errorf("the conversation goes on: %v", next == conn)
	}
}

// A reply is not longer than its call, so that the server is of no use to one who has it flood another machine.
func TestRepliesAreNotLongerThanCalls(t *testing.T) {
	c := &counter{calls: make(chan *rpc.Conn, 10)}
	s := serve(t, "udp4", "127.0.0.1:0", c)
	peer := dial(t, s.Addr())
	_, _ = peer.Write(call(1, 4))
	_, _ = peer.Write(call(2, 0))
	if got := receive(t, peer); binary.BigEndian.Uint32(got) != 2 {
		t.Errorf("%d bytes for %d", len(got), len(call(1, 4)))
	}
}
