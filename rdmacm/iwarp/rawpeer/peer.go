package rawpeer

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// hang is how long one call of a method waits before the test fails.
const hang = 30 * time.Second

// A Peer is one end of a TCP connection. Its methods fail the test on anything unexpected.
// Only the test's own goroutine may call them.
type Peer struct {
	T    testing.TB
	Conn *net.TCPConn
	// CRC is true if WriteFPDU puts CRCs into FPDUs, and ReadFPDU checks them.
	CRC bool
	// MSN is the last sequence number used on each queue.
	MSN [3]uint32
}

// New returns a Peer for a TCP connection. The connection is closed at the end of the test.
func New(t testing.TB, c net.Conn) *Peer {
	t.Helper()
	p := &Peer{T: t, Conn: c.(*net.TCPConn)}
	t.Cleanup(func() { c.Close() })
	p.waits()
	return p
}

// waits sets the deadline of the next read or write. An error means that the connection has
// ended; it is ignored, because the next read or write fails as well.
func (p *Peer) waits() { _ = p.Conn.SetDeadline(time.Now().Add(hang)) }

// Dial connects to addr, and sends nothing yet.
func Dial(t testing.TB, addr netip.AddrPort) *Peer {
	t.Helper()
	return dial(t, addr, net.Dialer{})
}

// DialSegments is Dial with TCP segments of at most mss bytes, in both directions.
func DialSegments(t testing.TB, addr netip.AddrPort, mss int) *Peer {
	t.Helper()
	t.Helper()
	return dial(t, addr, net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		ctlErr := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, mss)
		})
		return errors.Join(ctlErr, err)
	}})
}

func dial(t testing.TB, addr netip.AddrPort, d net.Dialer) *Peer {
	t.Helper()
	c, err := d.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return New(t, c)
}

// A Listener accepts the TCP connections of initiators.
type Listener struct {
	t testing.TB
	l net.Listener
}

// Listen listens on a free port of the loopback.
func Listen(t testing.TB) *Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Listener{t, l}
}

// Addr returns the address on which l listens.
func (l *Listener) Addr() netip.AddrPort { return l.l.Addr().(*net.TCPAddr).AddrPort() }

// Accept waits for the next initiator's TCP connection.
func (l *Listener) Accept() *Peer {
	l.t.Helper()
	if err := l.l.(*net.TCPListener).SetDeadline(time.Now().Add(hang)); err != nil {
		l.t.Fatal(err)
	}
	c, err := l.l.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	return New(l.t, c)
}

// Write sends b unchanged.
func (p *Peer) Write(b []byte) {
	p.T.Helper()
	p.waits()
	if _, err := p.Conn.Write(b); err != nil {
		p.T.Fatalf("raw peer: write: %v", err)
	}
}

// Hex reads bytes written as hex digits; blanks are ignored.
func Hex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// WriteHex sends bytes written as hex digits.
func (p *Peer) WriteHex(s string) {
	p.T.Helper()
	p.Write(Hex(p.T, s))
}

// ReadBytes receives n bytes.
func (p *Peer) ReadBytes(n int) []byte {
	p.T.Helper()
	b := make([]byte, n)
	p.waits()
	if k, err := io.ReadFull(p.Conn, b); err != nil {
		p.T.Fatalf("raw peer: read %d bytes %.64x of %d: %v", k, b[:k], n, err)
	}
	return b
}

// ReadEOF asserts that the other side sends nothing more and closes its half in order.
func (p *Peer) ReadEOF() {
	p.T.Helper()
	p.waits()
	rest, err := io.ReadAll(p.Conn)
	if err != nil || len(rest) > 0 {
		p.T.Fatalf("raw peer: %d bytes %.64x and %v where EOF was due", len(rest), rest, err)
	}
}

// ReadEnd asserts that the other side closes the connection, in order or by a reset, and
// sends nothing more before.
func (p *Peer) ReadEnd() {
	p.T.Helper()
	p.waits()
	rest, err := io.ReadAll(p.Conn)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.T.Fatalf("raw peer: %d bytes %.64x and %v where the end was due", len(rest), rest, err)
	}
}

// ReadReset asserts that the other side resets the connection. It skips the bytes that
// arrive before.
func (p *Peer) ReadReset() {
	p.T.Helper()
	p.waits()
	if _, err := io.Copy(io.Discard, p.Conn); !errors.Is(err, syscall.ECONNRESET) {
		p.T.Fatalf("raw peer: %v where a reset was due", err)
	}
}

// Pending reports whether bytes have arrived that the test has not read.
func (p *Peer) Pending() bool {
	p.T.Helper()
	raw, err := p.Conn.SyscallConn()
	if err != nil {
		p.T.Fatal(err)
	}
	pending := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		pending = n > 0 && err == nil
	})
	if err != nil {
		p.T.Fatal(err)
	}
	return pending
}

// CloseWrite closes this side's half of the connection, if it is still open.
func (p *Peer) CloseWrite() {
	p.T.Helper()
	if err := p.Conn.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		p.T.Fatal(err)
	}
}

// Reset resets the connection.
func (p *Peer) Reset() {
	p.T.Helper()
	if err := p.Conn.SetLinger(0); err != nil {
		p.T.Fatal(err)
	}
	p.Conn.Close()
}

// NextMSN returns the sequence number for the next message on a queue.
func (p *Peer) NextMSN(queue uint32) uint32 {
	p.MSN[queue]++
	return p.MSN[queue]
}

// Short names of the queues, for tests.
const (
	QueueSend      = wire.QueueSend
	QueueRead      = wire.QueueRead
	QueueTerminate = wire.QueueTerminate
)
