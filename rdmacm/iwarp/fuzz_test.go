package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// FuzzMPAFrame checks that readFrame accepts or refuses any bytes. A frame that it accepts
// encodes to the same bytes, except reserved bits.
func FuzzMPAFrame(f *testing.F) {
	for _, s := range []string{
		"4d504120494420526571204672616d65 1002 000c 0080 0000 f6ab0e18 01 01 03 03",
		"4d504120494420526570204672616d65 1002 000c 0000 0080 f6ab0e18 01 01 03 03",
		"4d504120494420526571204672616d65 0001 0000", "4d504120494420526570204672616d65 7002 0004 c001c002",
		"4d504120494420526571204672616d65 1002 0003 000000", "4d504120494420526571204672616d65 ffff ffff",
	} {
		f.Add(rawpeer.Hex(f, s), false)
		f.Add(rawpeer.Hex(f, s), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		got, err := readFrame(bytes.NewReader(b), reply)
		if err != nil {
			if !errors.Is(err, rdmacm.ErrSetup) {
				t.Fatalf("error %v", err)
			}
			return
		}
		h := got.MPAHeader
		var data *wire.Enhanced
		if h.Flags &^= wire.MPAEnhanced; got.enhanced {
			data = &got.data
		} else if got.Flags&wire.MPAEnhanced != 0 {
			return // a reserved bit of revision 1
		}
		again := appendFrame(h, data, got.private)
		want := bytes.Clone(b[:len(again)])
		want[16] &= 0xf0
		if got.enhanced && !data.PeerToPeer {
			want[20] &^= 0xc0
			want[22] &^= 0xc0
		}
		if !bytes.Equal(again, want) {
			t.Fatalf("made  %x\nof    %x", again, want)
		}
	})
}

// A nullSocket accepts all output, and has no input.
type nullSocket struct{ syscall.RawConn }

func (nullSocket) Read(func(fd uintptr) bool) error { return errors.New("no input") }

// newNullSocket returns a nullSocket over a connection whose peer reads and ignores everything.
func newNullSocket(t testing.TB) nullSocket {
	t.Helper()
	l, err := net.Listen("tcp", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.Copy(io.Discard, in)
		in.Close()
	}()
	raw, err := out.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return nullSocket{raw}
}

// A guarded connection has no socket. Tests put bytes into its ring (feed), and check that it
// writes only to memory between the guards.
type guarded struct {
	*Conn
	t         testing.TB
	arena     []byte // registered memory, with guards around it
	sink      []byte
	delivered int
	closed    bool
	late      bool
}

const (
	guard      = 64
	fuzzRegion = 100_000
	fuzzSTag   = 0x11223344
	fuzzSink   = 0x0a0b0c01
	fuzzBase   = 0x1000
	fuzzRead   = 0x10000
)

func (g *guarded) Received(r *rdmacm.Recv) {
	if g.life.faulty.Load() || g.life.stopping.Load() {
		g.late = true
	}
	g.delivered++
	if len(r.Bytes) > 8192 {
		g.t.Errorf("message of %d bytes where 8192 were promised", len(r.Bytes))
	}
	r.Release()
}
func (g *guarded) Closed(error) { g.closed = true }

// newGuarded returns a guarded connection with an outstanding Read, whose steering tag is in the
// seeds.
func newGuarded(t testing.TB, p *Provider, null nullSocket, crc bool) *guarded {
	g := newGuardedIdle(t, p, null, crc)
	sink := g.sink[guard:][:fuzzRead:fuzzRead]
	g.Post(&rdmacm.Chain{
		Work: []rdmacm.Work{{Op: rdmacm.OpRead, Local: [][]byte{sink[:5], sink[5:20_000], sink[20_000:]}}},
		Done: func(*rdmacm.Chain, error, int) {},
	})
	g.rx.reads[0].stag, g.rx.reads[0].base = fuzzSink, fuzzBase
	return g
}

// newGuardedIdle returns a guarded connection without work.
func newGuardedIdle(t testing.TB, p *Provider, null nullSocket, crc bool) *guarded {
	g := &guarded{t: t, arena: make([]byte, guard+fuzzRegion+guard), sink: make([]byte, guard+fuzzRead+guard)}
	c := &Conn{
		p: p, sock: &net.TCPConn{}, raw: null, agreed: agreement{MPA: rdmacm.MPA{CRC: crc, IRD: 4, ORD: 8}}, depth: 8,
	}
	g.Conn = c
	if err := c.init(&rdmacm.ConnParam{Handler: g, Receives: 20, ReceiveSize: 8192}); err != nil {
		t.Fatal(err)
	}
	// The seeds contain this region's tag.
	r := &region{owner: &c.regions, stag: fuzzSTag, base: fuzzBase, length: fuzzRegion, access: rdmacm.RemoteRead | rdmacm.RemoteWrite}
	r.memory = g.arena[guard:][:fuzzRegion:fuzzRegion]
	c.regions.all[r] = struct{}{}
	p.stags.m[fuzzSTag] = r
	return g
}

// feed does what readReady does, but takes the input from b, in pieces of at most chunk bytes.
func (g *guarded) feed(b []byte, chunk int) {
	x := &g.rx
	for len(b) > 0 && !g.life.stopping.Load() && !g.life.faulty.Load() {
		x.borrow()
		exposed := x.exposed()
		if exposed != nil {
			exposed.mu.Lock()
		}
		entries, direct := x.layOut()
		in, n := b[:min(chunk, len(b))], 0
		for k := range entries {
			n += copy(x.ring.bytes(k, int(x.ring.iov[k].Len)), in[n:])
		}
		x.landed(n, direct)
		if exposed != nil {
			exposed.mu.Unlock()
		}
		b = b[n:]
		if n == 0 {
			g.t.Fatal("no room in the ring")
		}
		x.consume()
		x.giveBack()
	}
}

// FuzzFPDUStream feeds any bytes to the receiver, in pieces of any size. The receiver writes only
// to memory that the peer may reach, uses only promised receives, delivers nothing after a fault,
// and releases everything at its end.
func FuzzFPDUStream(f *testing.F) {
	null := newNullSocket(f)
	for _, s := range []string{
		"000e c140 00000001 0000000000000000 ebd34c5f",
		"002e 4141 00000000 00000001 00000001 00000000 0a0b0c01 0000000000001000 00010000 11223344 0000000000001000 00000000",
		"0013 c142 0a0b0c01 0000000000001000 68656c6c6f 000000 bdcc11de",
		"000e c142 00000000 0000000000000000 6975d6ca",
		"0015 4143 00000000 00000000 00000001 00000000 616263 00 447065aa",
		"0012 4144 11223344 00000000 00000001 00000000 fecbe798",
		"0016 4147 00000000 00000002 00000001 00000000 20020000 7fe42585",
		"0046 4147 00000000 00000002 00000001 00000000 0101e000 002e 4141 00000000 00000001 00000001 00000000 0a0b0c01 0000000000001000 00010000 1122aa03 1234567800002000 01395a9b",
		// Lengths below the headers', and a Response beyond its sink.
		"0000 0000 00000000", "000d c140 00000001 0000000000000000", "0011 4143 00000000 00000000 00000001 000000",
		"0012 8142 0a0b0c01 0000000000001000 01020304 00000000 0012 c142 0a0b0c01 0000000000010fff 01020304 00000000",
	} {
		f.Add(rawpeer.Hex(f, s), 1<<20, false)
		f.Add(rawpeer.Hex(f, s), 7, true)
	}
	// A Response of large segments, the last one shorter: the receiver guesses the next FPDUs.
	var response []byte
	for at := 0; at < fuzzRead; {
		n := min(17_002, fuzzRead-at)
		u := rawpeer.Tagged(wire.Tagged{
			Op: wire.ReadResponse, Last: at+n == fuzzRead, STag: fuzzSink, Offset: fuzzBase + uint64(at),
		}, make([]byte, n))
		response = append(binary.BigEndian.AppendUint16(response, uint16(len(u))), u...)
		response = append(response, make([]byte, trailerSize(len(u)))...)
		at += n
	}
	f.Add(response, 20_000, false)
	f.Add(response, 20_000, true)
	// Streams of a Linux client and of the Linux server.
	files, err := filepath.Glob("testdata/*.fpdus")
	if err != nil || len(files) == 0 {
		f.Fatal("no streams in testdata", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 1448, false)
	}
	p, err := New(Config{StallTimeout: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, chunk int, crc bool) {
		chunk = max(chunk&0xfffff, 1)
		if crc {
			// The bytes get correct CRCs, because otherwise hardly any FPDU would be accepted.
			b = withCRCs(b)
		}
		g := newGuarded(t, p, null, crc)
		g.feed(b, chunk)
		if g.delivered > 20 || g.late {
			t.Fatalf("%d messages delivered where 20 were promised; late %v", g.delivered, g.late)
		}
		for _, m := range [][]byte{g.arena, g.sink} {
			if !bytes.Equal(m[:guard], make([]byte, guard)) || !bytes.Equal(m[len(m)-guard:], make([]byte, guard)) {
				t.Fatal("memory around the regions was written to")
			}
		}
		if n := g.tx.answering.Load(); n > 4 {
			t.Fatalf("%d Reads are being answered", n)
		}
		g.rx.eof = true
		g.life.conclude()
		if !g.closed || p.stags.lookup(fuzzSTag) != nil || ringsLent(p) > 0 {
			t.Fatal("something was not given back")
		}
	})
}

// withCRCs writes correct CRCs into everything that looks like an FPDU.
func withCRCs(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+2 <= len(b); {
		end := at + wire.FPDUSize(wire.ULPDULength(b[at:]))
		if end > len(b) {
			break
		}
		wire.PutCRC(b[end-wire.CRCSize:], wire.CRC(0, b[at:end-wire.CRCSize]))
		at = end
	}
	return b
}
