package iwarp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

func write(stag uint32, offset uint64, b ...[]byte) rdmacm.Work {
	return rdmacm.Work{Op: rdmacm.OpWrite, Local: b, Remote: rdmacm.Remote{STag: stag, Offset: offset}}
}

func read(stag uint32, offset uint64, b ...[]byte) rdmacm.Work {
	return rdmacm.Work{Op: rdmacm.OpRead, Local: b, Remote: rdmacm.Remote{STag: stag, Offset: offset}}
}

// IW-1, IW-27, IW-28, IW-34, IW-36, IW-50, IW-65, IW-73, IW-213: work goes out in the order of
// posting, each as a message of its own. ReadOp parses and checks each header: control bytes
// (IW-2, IW-5, IW-6, IW-8, IW-9, IW-10), queues and kinds (IW-25, IW-30, IW-33, IW-46, IW-49),
// sequence numbers (IW-206), and the tag to invalidate, or none (IW-4, IW-12, IW-52).
func TestPostedInOrder(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	var back []<-chan result
	back = append(back,
		post(s.Conn, write(1, 100, []byte("w1")), read(9, 90, make([]byte, 5)), send([]byte("s1"))),
		post(s.Conn, write(2, 200, []byte("w2"), nil, []byte("w2"))),
		post(s.Conn, write(3, 300, []byte("w3")), read(8, 80, make([]byte, 2), make([]byte, 2)), read(7, 70),
			rdmacm.Work{Op: rdmacm.OpSendInvalidate, Local: [][]byte{[]byte("s2")}, Invalidate: 0x1234}))
	expectWrite := func(stag uint32, offset uint64, payload string) {
		t.Helper()
		f := raw.ReadOp(wire.Write)
		if f.Tagged.STag != stag || f.Tagged.Offset != offset || string(f.Payload) != payload || !f.Last {
			t.Errorf("%+v %q", f.Tagged, f.Payload)
		}
	}
	var sinks []wire.Read
	expectRead := func(msn, stag uint32, offset uint64, size uint32) {
		t.Helper()
		f := raw.ReadOp(wire.ReadRequest)
		q := wire.ParseRead(f.Payload)
		if f.Untagged.Queue != 1 || f.Untagged.MSN != msn || f.Untagged.Offset != 0 || !f.Last || f.Untagged.Invalidate != 0 ||
			q.SourceSTag != stag || q.SourceOffset != offset || q.Size != size || q.SinkSTag == 0 {
			t.Errorf("%+v %+v", f.Untagged, q)
		}
		sinks = append(sinks, q)
	}
	expectSend := func(op wire.Opcode, msn, stag uint32, payload string) {
		t.Helper()
		f := raw.ReadOp(op)
		if f.Untagged != (wire.Untagged{Op: op, Last: true, MSN: msn, Invalidate: stag}) || string(f.Payload) != payload {
			t.Errorf("%+v %q", f.Untagged, f.Payload)
		}
	}
	expectWrite(1, 100, "w1")
	expectRead(1, 9, 90, 5)
	expectSend(wire.Send, 1, 0, "s1")
	expectWrite(2, 200, "w2w2")
	expectWrite(3, 300, "w3")
	expectRead(2, 8, 80, 4)
	expectRead(3, 7, 70, 0)
	expectSend(wire.SendInvalidate, 2, 0x1234, "s2")
	// IW-43, IW-63, IW-67, IW-70, IW-72: chains complete in order, and only when the whole
	// Response has arrived, after the Sends that arrived before it.
	for _, ch := range back {
		pending(t, ch)
	}
	for i, q := range sinks {
		raw.WriteFPDU(raw.Send(nil), rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, make([]byte, q.Size)))
		switch i {
		case 0:
			good(t, back[0])
			good(t, back[1])
		case 1:
			pending(t, back[2])
		}
	}
	good(t, back[2])
	if n := len(s.received); n != len(sinks) {
		t.Errorf("%d Sends have arrived when the last Read completes, want %d", n, len(sinks))
	}
}

// IW-70: a Read completes with the last segment of its Response, not earlier, and the bytes are
// in their places. IW-212: an empty segment of the Response may name any tag and offset.
func TestReadIsScattered(t *testing.T) {
	for _, crc := range []CRCMode{CRCOff, CRCOn} {
		raw, s := active(t, Config{CRC: crc})
		const n = 150_000
		sink, want := make([]byte, n), randomBytes(n)
		back := post(s.Conn, read(5, 50, sink[:1], sink[1:70_000], nil, sink[70_000:70_001], sink[70_001:]))
		q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
		at := 0
		raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, STag: ^q.SinkSTag, Offset: 1<<64 - 1}, nil))
		for _, k := range []int{10, 40_000, 60_000, 49_989} {
			raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, STag: q.SinkSTag, Offset: q.SinkOffset + uint64(at)}, want[at:at+k]))
			at += k
		}
		// When the peer's Send is delivered, this side has processed the segments before it.
		raw.WriteFPDU(raw.Send(nil))
		wait(t, s.received)
		pending(t, back)
		raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset + n - 1}, want[n-1:]))
		good(t, back)
		if !bytes.Equal(sink, want) {
			t.Error("differs")
		}
	}
}

// A Read Response must match the request: its STag, its offsets and its length. (siw accepts one
// that continues beyond the sink.) IW-70: otherwise the Read completes with an error. Nothing is
// placed outside the sink.
func TestReadResponseMustMatch(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(h *wire.Tagged, n *int)
		cause wire.Cause
	}{
		"other STag":               {func(h *wire.Tagged, _ *int) { h.STag ^= 1 }, wire.DDPInvalidSTag},
		"offset behind":            {func(h *wire.Tagged, _ *int) { h.Offset++ }, wire.DDPBounds},
		"offset in front":          {func(h *wire.Tagged, _ *int) { h.Offset-- }, wire.DDPBounds},
		"one byte too long":        {func(_ *wire.Tagged, n *int) { *n++ }, wire.DDPBounds},
		"too long, more to come":   {func(h *wire.Tagged, n *int) { *n++; h.Last = false }, wire.DDPBounds},
		"one byte too short":       {func(_ *wire.Tagged, n *int) { *n-- }, wire.DDPBounds},
		"empty and last":           {func(_ *wire.Tagged, n *int) { *n = 0 }, wire.DDPBounds},
		"far too long, in segment": {func(h *wire.Tagged, n *int) { *n = 60_000 }, wire.DDPBounds},
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := active(t, Config{CRC: CRCOff})
			arena := make([]byte, 300)
			back := post(s.Conn, read(1, 2, arena[100:200]))
			q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
			h, n := wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, 100
			c.edit(&h, &n)
			raw.WriteFPDU(rawpeer.Tagged(h, bytes.Repeat([]byte{1}, n)))
			raw.ReadTerminate(c.cause)
			raw.Conn.Close()
			if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
				t.Errorf("chain came back with %v, index %d", r.err, r.failed)
			}
			s.terminated(c.cause, false)
			if !bytes.Equal(arena, make([]byte, 300)) {
				t.Error("something was placed")
			}
		})
	}
}

// A hostile peer sees the sink's STag in the Read Request, but only the Response may use it.
func TestReadSinkIsNotWritable(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	sink := make([]byte, 8)
	post(s.Conn, read(1, 2, sink))
	q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
	raw.WriteFPDU(writeTo(q.SinkSTag, q.SinkOffset, 8)...)
	raw.ReadTerminate(wire.DDPInvalidSTag)
}

// IW-76: no more Reads than agreed are outstanding. A chain with one more fails; other chains are
// not affected.
func TestReadsKeepToTheDepth(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	var back []<-chan result
	for range 3 + 2 {
		back = append(back, post(s.Conn, read(1, 2, make([]byte, 1)), send([]byte("behind"))))
	}
	last := post(s.Conn, send([]byte("alive")))
	var sinks []wire.Read
	for range 3 {
		sinks = append(sinks, wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload))
		raw.ReadOp(wire.Send)
	}
	if m := raw.ReadOp(wire.Send); string(m.Payload) != "alive" {
		t.Errorf("%q", m.Payload)
	}
	for i, q := range sinks {
		raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, []byte{1}))
		good(t, back[i])
	}
	for _, ch := range back[3:] {
		if r := wait(t, ch); !errors.Is(r.err, rdmacm.ErrReadDepth) || r.failed != 0 {
			t.Errorf("chain came back with %v, index %d", r.err, r.failed)
		}
	}
	good(t, last)
}

// IW-52, IW-209: a chain with an invalid work request fails, and the connection continues.
func TestWorkThatCannotBe(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	for _, w := range []rdmacm.Work{
		{Op: rdmacm.OpSendInvalidate}, {Op: 99},
		{Op: rdmacm.OpWrite, Local: tooLong()}, {Op: rdmacm.OpSend, Local: tooLong()[:1025]},
	} {
		for at := range 3 {
			work := slices.Repeat([]rdmacm.Work{send([]byte("bad"))}, 3)
			work[at] = w
			if r := wait(t, post(s.Conn, work...)); r.err == nil || r.failed != at {
				t.Errorf("%v: came back with %v, index %d, want %d", w.Op, r.err, r.failed, at)
			}
		}
	}
	good(t, post(s.Conn, send([]byte("good"))))
	if f := raw.ReadOp(wire.Send); string(f.Payload) != "good" {
		t.Errorf("%q went out", f.Payload)
	}
}

// tooLong returns pieces of 4 GiB in all: one MiB, repeated.
func tooLong() [][]byte {
	b := make([]byte, 1<<20)
	l := make([][]byte, 4096)
	for i := range l {
		l[i] = b
	}
	return l
}

// IW-66: a Send or Write completes when TCP has taken its last byte, not before. A peer that does
// not read blocks neither Post nor the receiver.
func TestPeerThatDoesNotRead(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	// TCP's buffers are smaller than one batch. So TCP has not taken the end of the Write when
	// its last FPDU is built.
	if err := errors.Join(s.sock.SetWriteBuffer(64<<10), raw.Conn.SetReadBuffer(64<<10)); err != nil {
		t.Fatal(err)
	}
	big := randomBytes(8 << 20)
	back, taken := make(chan result, 1), make(chan uint64, 1)
	s.Post(&rdmacm.Chain{Work: []rdmacm.Work{write(1, 0, big)}, Done: func(_ *rdmacm.Chain, err error, failed int) {
		taken <- s.tx.progress.Load()
		back <- result{err, failed}
	}})
	behind := post(s.Conn, send([]byte("behind")))
	pending(t, back)
	raw.WriteFPDU(raw.Send([]byte("heard")))
	if m := wait(t, s.received); string(m) != "heard" {
		t.Errorf("%q", m)
	}
	pending(t, back)
	pending(t, behind)
	// While the peer reads slowly, another goroutine collects completed chains, as the end of a
	// Read does.
	var got []byte
	for last := false; !last; {
		s.tx.complete()
		f := raw.ReadOp(wire.Write)
		got, last = append(got, f.Payload...), f.Last
	}
	if !bytes.Equal(got, big) {
		t.Error("differs")
	}
	raw.ReadOp(wire.Send)
	good(t, back)
	good(t, behind)
	if n := wait(t, taken); n < uint64(len(big)) {
		t.Errorf("the Write came back when TCP had taken %d bytes", n)
	}
}

// IW-201, IW-202, IW-205, IW-207, IW-208, IW-210, IW-214, IW-301, IW-324: messages are divided
// into segments that fit, and the last segment is marked. ReadMessage checks their headers.
// IW-300, IW-302: each segment is an FPDU of its own, and its pad is zero. The limits are those
// of RFC 5044 §4.1.1: ULPDUs of 128 to 64768 bytes, with length field, pad and CRC.
func TestSegments(t *testing.T) {
	for name, c := range map[string]struct {
		size  FPDUSize
		limit int
	}{
		"auto": {FPDUAuto, 64776}, "smallest": {136, 136}, "1448": {1448, 1448}, "odd": {1449, 1449}, "largest": {64776, 64776},
		"mss": {FPDUMSS, 65535},
	} {
		t.Run(name, func(t *testing.T) {
			for _, crc := range []CRCMode{CRCOff, CRCOn} {
				raw, s := active(t, Config{CRC: crc, MaxFPDU: c.size})
				m := randomBytes(200_003)
				for _, n := range []int{0, 1, 2, 3, 4, 5, 511, 512, 513, 1000, 64752, 64748, 64753, 200_003} {
					back := post(s.Conn, write(3, 1<<40, m[:n]), send(m[:n/2], m[n/2:n]))
					f, got := raw.ReadMessage(wire.Write)
					if f.Tagged.STag != 3 || f.Tagged.Offset != 1<<40 || !bytes.Equal(got, m[:n]) || len(f.Raw) > c.limit {
						t.Errorf("Write of %d: %+v, FPDU of %d", n, f.Tagged, len(f.Raw))
					}
					if len(f.ULPDU) > 64768 {
						t.Errorf("ULPDU of %d", len(f.ULPDU))
					}
					f, got = raw.ReadMessage(wire.Send)
					if f.Untagged.Offset != 0 || !bytes.Equal(got, m[:n]) || len(f.Raw) > c.limit {
						t.Errorf("Send of %d: %+v, FPDU of %d", n, f.Untagged, len(f.Raw))
					}
					if c.size == FPDUAuto && crc == CRCOff && n > 64776 && len(f.ULPDU) < 64000 {
						t.Errorf("ULPDU of %d where a large one fits", len(f.ULPDU))
					}
					good(t, back)
				}
			}
		})
	}
}

// A message with more pieces than one FPDU can refer to is divided into several segments.
func TestManyPieces(t *testing.T) {
	raw, s := active(t, Config{})
	var pieces [][]byte
	var want []byte
	for i := range 1000 {
		p := bytes.Repeat([]byte{byte(i)}, i)
		pieces = append(pieces, p)
		want = append(want, p...)
	}
	back := post(s.Conn, write(1, 0, pieces...))
	if _, got := raw.ReadMessage(wire.Write); !bytes.Equal(got, want) {
		t.Error("differs")
	}
	good(t, back)
}

// mulpdu computes the MULPDU from the TCP segment size as RFC 5044 §4.1.1 says.
func TestMULPDU(t *testing.T) {
	for _, c := range []struct {
		emss    int
		markers bool
		want    int
	}{{1460, false, 1454}, {1448, false, 1442}, {1461, false, 1454}, {1460, true, 1442}, {1448, true, 1430}, {8948, false, 8942}} {
		if got := mulpdu(c.emss, c.markers); got != c.want {
			t.Errorf("EMSS %d, markers %v: %d, want %d", c.emss, c.markers, got, c.want)
		}
	}
	for s, ok := range map[string]bool{"auto": true, "mss": true, "1448": true, "136": true, "64776": true, "135": false, "64777": false, "x": false, "": false, "-3": false} {
		if _, err := ParseFPDUSize(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// IW-302: the pad of a short Send is zero, whatever the buffer held before. The raw peer checks
// the pads of all FPDUs that it reads.
func TestPadOfShortSends(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	for n := range 16 {
		good(t, post(s.Conn, send(bytes.Repeat([]byte{0xff}, 400))))
		raw.ReadOp(wire.Send)
		good(t, post(s.Conn, send(make([]byte, n))))
		if f := raw.ReadOp(wire.Send); len(f.Payload) != n {
			t.Errorf("%d bytes of payload, want %d", len(f.Payload), n)
		}
	}
}

// One system call sends all records of a batch. If it sends only a part, the next call sends the
// rest.
func TestRecordsOfABatchGoTogether(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	b := new(batch)
	for _, record := range []string{"first", "second", "third"} {
		copy(b.grow(len(record)), record)
		b.cut()
	}
	send := func(want int) {
		t.Helper()
		if err := s.tx.raw.Control(func(fd uintptr) {
			if n, errno := b.send(fd); n != want || errno != 0 {
				t.Errorf("%d bytes are sent, %v", n, errno)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	send(16)
	b.advance(len("first") + 3)
	send(8)
	got := make([]byte, 24)
	if _, err := io.ReadFull(raw.Conn, got); err != nil || string(got) != "firstsecondthirdondthird" {
		t.Errorf("%q, %v", got, err)
	}
}
