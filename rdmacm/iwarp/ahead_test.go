package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A readAheadTest is a stream of FPDUs that answer Reads, on a connection without a socket, with
// the expected results.
type readAheadTest struct {
	*guarded
	stream []byte
	msn    uint32
	reads  []*outRead // in the order of sending, with their stag and base
	sizes  []int
	sinks  [][]byte
	wants  [][]byte
	sent   []int // bytes of the responses that are in stream
	log    []string
}

func newReadAheadTest(t *testing.T, crc bool, sizes ...int) *readAheadTest {
	p := provider(t, Config{StallTimeout: time.Hour})
	a := &readAheadTest{guarded: newGuardedIdle(t, p, newNullSocket(t), crc), sizes: sizes, sent: make([]int, len(sizes))}
	a.Conn.handler = a
	a.rx.begun = true
	for i, n := range sizes {
		sink := make([]byte, n)
		a.sinks, a.wants = append(a.sinks, sink), append(a.wants, randomBytes(n))
		a.Post(&rdmacm.Chain{
			Work: []rdmacm.Work{{Op: rdmacm.OpRead, Local: [][]byte{sink[:n/3], nil, sink[n/3 : n/3+1], sink[n/3+1:]}}},
			Done: func(_ *rdmacm.Chain, err error, _ int) {
				// Later bytes must not reach the sink any more.
				whole := bytes.Equal(sink, a.wants[i])
				clear(sink)
				a.log = append(a.log, fmt.Sprintf("read %d %v %v", i, whole, err))
			},
		})
		r := *a.rx.reads[len(a.rx.reads)-1]
		a.reads = append(a.reads, &r)
	}
	return a
}

func (a *readAheadTest) Received(r *rdmacm.Recv) {
	a.log = append(a.log, fmt.Sprintf("send %d", len(r.Bytes)))
	r.Release()
}

func (a *readAheadTest) fpdu(ulpdu []byte) {
	a.stream = binary.BigEndian.AppendUint16(a.stream, uint16(len(ulpdu)))
	a.stream = append(a.stream, ulpdu...)
	a.stream = append(a.stream, make([]byte, trailerSize(len(ulpdu)))...)
}

// answer appends segments of response i, with these lengths in bytes.
func (a *readAheadTest) answer(i int, segments ...int) {
	for _, n := range segments {
		at := a.sent[i]
		a.sent[i] += n
		a.fpdu(rawpeer.Tagged(wire.Tagged{
			Op: wire.ReadResponse, Last: a.sent[i] == a.sizes[i], STag: a.reads[i].stag, Offset: a.reads[i].base + uint64(at),
		}, a.wants[i][at:at+n]))
	}
}

func (a *readAheadTest) message(n int) {
	a.msn++
	a.fpdu(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: a.msn}, make([]byte, n)))
}

// run feeds the stream to the receiver in pieces of chunk bytes, and compares the log with want.
func (a *readAheadTest) run(chunk int, want ...string) {
	a.t.Helper()
	b := a.stream
	if a.agreed.CRC {
		b = withCRCs(b)
	}
	a.feed(b, chunk)
	if !slices.Equal(a.log, want) {
		a.t.Errorf("%q, want %q", a.log, want)
	}
	if a.life.faulty.Load() {
		a.t.Errorf("the connection has ended by a fault: %v", a.life.err)
	}
	a.rx.eof = true
	a.life.conclude()
}

// The receiver reads the response to a Read far beyond the FPDU whose header it knows. Each byte
// reaches its place, and each message and each Read completes once, in order, even if the FPDUs
// differ from the receiver's guess, and however the socket divides them.
func TestReadAhead(t *testing.T) {
	const n = 400_000
	for name, c := range map[string]struct {
		build func(a *readAheadTest)
		want  []string
	}{
		"as guessed": {func(a *readAheadTest) {
			a.answer(0, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000)
			a.answer(1, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000)
		}, []string{"read 0 true <nil>", "read 1 true <nil>"}},
		"the last one shorter, with a pad": {func(a *readAheadTest) {
			a.answer(0, 65_005, 65_005, 65_005, 65_005, 65_005, 65_005, 9970)
			a.answer(1, 65_005, 65_005, 65_005, 65_005, 65_005, 65_005, 9970)
		}, []string{"read 0 true <nil>", "read 1 true <nil>"}},
		"any lengths": {func(a *readAheadTest) {
			a.answer(0, 40_000, 40_000, 39_999, 40_001, 0, 1, 60_000, 16, 17_000, 20_000, 40_000, 102, 40_000, 62_881)
			a.answer(1, 17_000, 1, 17_000, 0, 17_000, 17_001, 60_000, 60_000, 60_000, 60_000, 60_000, 31_998)
		}, []string{"read 0 true <nil>", "read 1 true <nil>"}},
		"messages between": {func(a *readAheadTest) {
			a.message(10)
			a.answer(0, 50_000, 50_000, 50_000)
			a.message(0)
			a.answer(0, 50_000, 50_000)
			a.message(2000)
			a.answer(0, 50_000, 50_000, 50_000)
			a.message(20)
			a.message(8000)
			a.answer(1, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000)
			a.message(30)
		}, []string{"send 10", "send 0", "send 2000", "read 0 true <nil>", "send 20", "send 8000", "read 1 true <nil>", "send 30"}},
	} {
		for _, crc := range []bool{false, true} {
			for _, chunk := range []int{1 << 20, 300_000, 100_001, 40_020, 40_000, 8191, 333, 63} {
				t.Run(fmt.Sprintf("%s/%v/%d", name, crc, chunk), func(t *testing.T) {
					a := newReadAheadTest(t, crc, n, n)
					c.build(a)
					a.run(chunk, c.want...)
				})
			}
		}
	}
}

// A megabyte that has arrived takes few reads of the socket once the receiver knows the length of
// its FPDUs, and the reads put it straight into the sink.
func TestReadAheadIsLarge(t *testing.T) {
	a := newReadAheadTest(t, true, 1<<20, 1<<20, 1<<20)
	for i := range a.sizes {
		a.answer(i, slices.Repeat([]int{32 << 10}, 32)...)
	}
	b, reads := withCRCs(a.stream), 0
	for len(b) > 0 {
		room := 0
		a.rx.borrow()
		entries, _ := a.rx.layOut()
		for k := range entries {
			room += int(a.rx.ring.iov[k].Len)
		}
		room = min(room, len(b))
		a.feed(b[:room], room)
		b = b[room:]
		reads++
	}
	// The first read goes to the ring; each later one brings as much as the ring could hold.
	if most := 1 + 3<<20/(RingSize-32<<10); reads > most {
		t.Errorf("%d reads of the socket, want at most %d", reads, most)
	}
	if len(a.log) != 3 {
		t.Errorf("%q", a.log)
	}
	if n := a.p.counters.misguessed.Load(); n > 0 {
		t.Errorf("%d times something else came", n)
	}
	a.rx.eof = true
	a.life.conclude()
}

// If calls come between responses, the receiver stops guessing that a response begins where
// another has ended, so that it does not move their payload again and again.
func TestReadAheadAfterAMisguess(t *testing.T) {
	a := newReadAheadTest(t, false, 80_000, 80_000, 80_000, 80_000, 80_000, 80_000)
	for i := range a.sizes {
		a.answer(i, 40_000, 40_000)
		if i >= 1 {
			a.message(100)
		}
	}
	a.run(80_000+2*(taggedHeader+wire.CRCSize+2),
		"read 0 true <nil>", "read 1 true <nil>", "send 100", "read 2 true <nil>", "send 100", "read 3 true <nil>", "send 100",
		"read 4 true <nil>", "send 100", "read 5 true <nil>", "send 100")
	if n := a.p.counters.misguessed.Load(); n > 1 {
		t.Errorf("%d misguesses", n)
	}
}

// A faulty segment of the response ends the connection, also if its payload was read ahead.
// Nothing outside the sinks is written, and no Read completes.
func TestReadAheadOfAFault(t *testing.T) {
	for name, edit := range map[string]func(ulpdu []byte){
		"offset":  func(u []byte) { u[13]++ },
		"stag":    func(u []byte) { u[5]++ },
		"last":    func(u []byte) { u[0] |= 0x40 },
		"opcode":  func(u []byte) { u[1] |= 0xf },
		"version": func(u []byte) { u[0] ^= 3 },
	} {
		t.Run(name, func(t *testing.T) {
			a := newReadAheadTest(t, true, 400_000)
			a.answer(0, 40_000, 40_000, 40_000)
			at := len(a.stream)
			a.answer(0, 40_000, 40_000)
			edit(a.stream[at+wire.LengthSize:])
			a.feed(withCRCs(a.stream), 1<<20)
			if !a.life.faulty.Load() {
				t.Error("no fault")
			}
			if len(a.log) > 0 {
				t.Errorf("%q", a.log)
			}
			if rest := a.sinks[0][200_000:]; !bytes.Equal(rest, make([]byte, len(rest))) {
				t.Error("written to behind what came")
			}
			a.rx.eof = true
			a.life.conclude()
		})
	}
}

// A sink in more pieces than one read of the socket has entries for is filled without moving
// bytes.
func TestReadAheadIntoManyPieces(t *testing.T) {
	a := newReadAheadTest(t, true, 400_000)
	r, sink := a.rx.reads[len(a.rx.reads)-1], a.sinks[0]
	r.pieces = slices.Collect(slices.Chunk(sink, 1500))
	a.answer(0, slices.Repeat([]int{40_000}, 10)...)
	a.run(1<<20, "read 0 true <nil>")
	if n := a.p.counters.misguessed.Load(); n > 0 {
		t.Errorf("%d misguesses", n)
	}
}

// A ring that is given back holds no reference to a sink.
func TestReadAheadLetsGo(t *testing.T) {
	a := newReadAheadTest(t, false, 400_000)
	a.answer(0, slices.Repeat([]int{40_000}, 10)...)
	a.run(1<<20, "read 0 true <nil>")
	r, _ := a.p.rings.Borrow(new(turns.Borrower[*ring]))
	defer a.p.rings.GiveBack(r)
	for i := range r.iov {
		if r.iov[i].Base != nil {
			t.Errorf("entry %d", i)
		}
	}
	if r.ahead.read != nil || r.ahead.left != 0 {
		t.Errorf("%v, %d bytes left", r.ahead.read, r.ahead.left)
	}
}
