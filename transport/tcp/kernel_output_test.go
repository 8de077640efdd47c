package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// deaf connects a peer whose kernel has little room for what the peer does not read.
func (f *fixture) deaf() *net.TCPConn {
	f.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		ctlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
		return errors.Join(ctlErr, err)
	}}
	c, err := d.Dial("tcp", f.addr)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// only returns the connection of the server, if it has one, or nil.
func (f *fixture) only() *conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		return c
	}
	return nil
}

// kernelHas reports whether the kernel has a socket of the server, connected to the peer.
func (f *fixture) kernelHas(peer net.Conn) bool {
	f.Helper()
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		f.Fatal(err)
	}
	entry := func(a net.Addr) string { // 127.0.0.1, as the file has it
		t := a.(*net.TCPAddr)
		ip := t.IP.To4()
		return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], t.Port)
	}
	return strings.Contains(string(b), entry(peer.RemoteAddr())+" "+entry(peer.LocalAddr()))
}

// A socket takes little more than its peer has room for, if its limit says so.
func TestSocketTakesLittleForAPeerThatDoesNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s := newStream(nc).(*socket)
	s.mostUnsent(strangerUnsent)
	total := 0
	for buf := make([]byte, 16<<10); ; {
		n, err := s.tryWrite([][]byte{buf}, false)
		total += n
		if err == errAgain {
			break
		} else if err != nil || total > 64<<20 {
			t.Fatalf("%d bytes are taken: %v", total, err)
		}
	}
	const segment = 64 << 10 // the kernel looks at its limit before it begins one
	var unsent uint32
	s.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		unsent = info.Notsent_bytes
	})
	if n := s.unacked(); n == 0 || n > total || unsent > strangerUnsent+segment {
		t.Errorf("of %d bytes the kernel keeps %d, of which %d are beyond the window", total, n, unsent)
	}
}

// A server's socket has that limit until the peer is known.
func TestLimitOfStrangersOutput(t *testing.T) {
	f := start(t, Config{})
	peer := f.raw()
	limit := func() (n int) {
		f.only().stream.(*socket).raw.Control(func(fd uintptr) {
			n, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		})
		return n
	}
	call := func(proc uint32) {
		peer.Write(fragments(rpctest.Message(1, proc, u32(4))))
		peer.SetReadDeadline(time.Now().Add(await.Limit))
		if _, err := io.ReadFull(peer, make([]byte, 4+24)); err != nil {
			t.Fatal(err)
		}
	}
	call(rpctest.NULL)
	if n := limit(); n != strangerUnsent {
		t.Errorf("a stranger's limit: %d", n)
	}
	call(rpctest.GET)
	if n := limit(); n != 0 {
		t.Errorf("a client's limit: %d", n)
	}
}

// A look charges the bytes that the peer has not acknowledged since the look before, and no others.
func TestChargeForWhatTheKernelKeeps(t *testing.T) {
	b := newBench(t, Config{})
	s, p := toyServer(t)
	defer s.Close()
	defer p.Wait()
	cfg := b.cfg
	cfg.RPC, cfg.Pool = s, b.pool
	cfg = cfg.withDefaults()
	st := &script{}
	c := testConn(&cfg, b.pool, st)
	for i, x := range []struct{ write, kept, charged int }{
		{0, 0, 0}, {1 << 20, 1 << 20, 0}, {0, 1 << 20, 1 << 20}, {1 << 20, 2 << 20, 1 << 20}, {4 << 20, 2 << 20, 0}, {0, 300, 300}, {0, 0, 0},
	} {
		c.out.written.Add(uint64(x.write))
		st.kept = x.kept
		if n := c.kernel.look(c); n != x.kept || c.kernel.charged.Load() != int64(x.charged) {
			t.Errorf("look %d: %d kept, %d charged, not %+v", i, n, c.kernel.charged.Load(), x)
		}
	}
	c.out.written.Add(100)
	st.kept = 100
	for range 2 {
		c.kernel.look(c)
	}
	if c.kernel.end(c); c.kernel.charged.Load() != 0 || c.kernel.look(c) != 0 {
		t.Error("a socket that is closed is charged")
	}
	c.share.Close()
}

// The pool counts what the kernel keeps for a peer that does not read. When the server throws the peer out,
// nothing of it remains. If the peer reads, it has all, and nothing is charged.
func TestKernelKeepsNothingOfAPeerThatIsThrownOut(t *testing.T) {
	for _, reads := range []bool{false, true} {
		f := start(t, Config{MaxQueue: 64 << 20, Stall: time.Hour})
		peer := f.deaf()
		const calls, size = 4, 400 << 10
		call := fragments(rpctest.Message(1, rpctest.GET, u32(size)))
		for range calls {
			if _, err := peer.Write(call); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		await.Until(t, "what the kernel keeps is charged", func() bool {
			f.sweep(now)
			c := f.only()
			if c == nil || c.received.Load() != calls*uint64(len(call)) {
				return false
			}
			n := int64(c.stream.unacked())
			return n > 0 && c.kernel.charged.Load() == n && f.pool.Stats().Charged >= n
		})
		if reads {
			peer.SetReadDeadline(time.Now().Add(await.WorkloadLimit))
			if n, err := io.CopyN(io.Discard, peer, calls*size); err != nil {
				t.Fatal(n, err)
			}
			await.Until(t, "nothing is charged", func() bool {
				f.sweep(now)
				return f.only().kernel.charged.Load() == 0
			})
			continue
		}
		if !f.kernelHas(peer) {
			t.Fatal("the socket is not found in /proc/net/tcp")
		}
		f.only().End(errors.New("others need its memory"))
		await.Until(t, "the connection is gone", func() bool { return f.Stats().Connections == 0 })
		await.Until(t, "the kernel has nothing of it", func() bool { return !f.kernelHas(peer) })
		if charged := f.pool.Stats().Charged; charged != 0 {
			t.Errorf("%d bytes are charged after the end", charged)
		}
	}
}

// A connection that ends in good order lets the kernel go on to send its output, unless the peer has stopped
// reading.
func TestEndOfAPeerThatDoesNotRead(t *testing.T) {
	for _, x := range []struct {
		why     error
		charged int64
		abrupt  bool
	}{{errIdle, 0, false}, {errIdle, 1, true}, {errEnded, 0, false}, {errClosing, 1, false}, {io.EOF, 0, false}, {errStalledOutput, 0, true}} {
		c := &conn{}
		c.cause.Store(&x.why)
		c.kernel.charged.Store(x.charged)
		if c.thrownOut() != x.abrupt {
			t.Errorf("%v with %d bytes charged: thrown out: %v", x.why, x.charged, !x.abrupt)
		}
	}
}

// A connection whose peer has closed its side lasts until the peer has everything: it keeps its seat, which
// others may get. If the peer does not read, it lasts as long as the peer may stall.
func TestConnectionLastsUntilThePeerHasItsReplies(t *testing.T) {
	for _, reads := range []bool{true, false} {
		f := start(t, Config{Stall: time.Hour})
		peer := f.deaf()
		const size = 48 << 10 // the peer's kernel has less room, and the server's has more
		if _, err := peer.Write(fragments(rpctest.Message(1, rpctest.GET, u32(size)))); err != nil {
			t.Fatal(err)
		}
		peer.CloseWrite()
		var c *conn
		await.Until(t, "the connection waits until the peer has its reply", func() bool {
			c = f.only()
			return c != nil && c.doing.Load() == draining && c.stream.unacked() > 0
		})
		if _, waits := c.Progress(); !waits || c.Busy() {
			t.Error("it keeps memory or its seat from others")
		}
		if reads {
			peer.SetReadDeadline(time.Now().Add(await.Limit))
			if n, err := io.Copy(io.Discard, peer); n < size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			await.Until(t, "the connection is gone", func() bool { return f.Stats().Connections == 0 })
			continue
		}
		at := time.Now()
		f.sweep(at)
		f.sweep(at.Add(time.Hour - time.Second))
		if c.dead() {
			t.Error("it ends early")
		}
		await.Until(t, "the connection is gone", func() bool {
			at = at.Add(2 * time.Hour)
			f.sweep(at)
			return f.Stats().Connections == 0
		})
		await.Until(t, "the kernel has nothing of it", func() bool { return !f.kernelHas(peer) })
	}
}
