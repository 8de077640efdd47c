package iwarp

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// IW-11, IW-13, IW-203: in a Send, reserved bits and the unused STag field are ignored, and
// nothing is invalidated.
//
// Different code receives the first Send of a connection, a later one, and one of two segments.
func TestSendWithReservedBits(t *testing.T) {
	raw, s := passive(t, Config{})
	memory := make([]byte, 4*4)
	r := s.expose(memory, rdmacm.RemoteWrite)
	s.Provide(4, 256)
	reserved := func(h wire.Untagged, payload string) []byte {
		h.Invalidate = r.STag()
		u := rawpeer.Untagged(h, []byte(payload))
		u[0] |= 0x3c
		u[1] |= 0x30
		return u
	}
	for i, segments := range [][][]byte{
		{reserved(wire.Untagged{Op: wire.Send, Last: true, MSN: 1}, "hi")},
		{reserved(wire.Untagged{Op: wire.Send, Last: true, MSN: 3}, "hi")},
		{reserved(wire.Untagged{Op: wire.SendSolicited, Last: true, MSN: 5}, "hi")},
		{reserved(wire.Untagged{Op: wire.Send, MSN: 7}, "h"), reserved(wire.Untagged{Op: wire.Send, Last: true, MSN: 7, Offset: 1}, "i")},
	} {
		raw.WriteFPDU(append(segments,
			rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset() + uint64(4*i)}, []byte("four")),
			rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: uint32(2*i + 2)}, nil))...)
		if m := wait(t, s.received); string(m) != "hi" {
			t.Errorf("%q", m)
		}
		wait(t, s.received)
		if got := memory[4*i:][:4]; string(got) != "four" {
			t.Errorf("case %d: %q", i, got)
		}
	}
}

// IW-47, IW-48, IW-51: each Send uses up one receive, also an empty one. IW-215: Sends of every
// type and of any number of segments arrive once each, and in order.
func TestSendsUseUpReceives(t *testing.T) {
	raw, s := passive(t, Config{})
	for i, op := range []wire.Opcode{wire.Send, wire.SendSolicited, wire.Send, wire.SendSolicited} {
		raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: op, Last: true, MSN: uint32(i + 1)}, bytes.Repeat([]byte{byte(i)}, i)))
	}
	for i := range 4 {
		if m := wait(t, s.received); len(m) != i {
			t.Errorf("message %d: %x", i, m)
		}
	}
	s.Provide(2, 256)
	raw.WriteFPDU(
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 5}, nil),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 6}, nil),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 7}, nil))
	wait(t, s.received)
	wait(t, s.received)
	raw.ReadTerminate(wire.DDPNoBuffer)

	// The same for Sends that invalidate, and for Sends with three segments each.
	raw, s = passive(t, Config{})
	r := s.expose(make([]byte, 4), rdmacm.RemoteWrite)
	for i, op := range []wire.Opcode{wire.SendSolInvalidate, wire.Send, wire.SendInvalidate, wire.SendInvalidate} {
		h := wire.Untagged{Op: op, MSN: uint32(i + 1), Invalidate: r.STag()}
		if i%2 == 0 {
			h.Last = true
			raw.WriteFPDU(rawpeer.Untagged(h, make([]byte, 3*i)))
			continue
		}
		for k := range 3 {
			h.Offset, h.Last = uint32(k*i), k == 2
			raw.WriteFPDU(rawpeer.Untagged(h, make([]byte, i)))
		}
	}
	for i := range 4 {
		if m := wait(t, s.received); len(m) != 3*i {
			t.Errorf("message %d: %x", i, m)
		}
	}
	raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 5}, nil))
	raw.ReadTerminate(wire.DDPNoBuffer)
}

// IW-68, IW-216, IW-217: a Send is delivered when its last segment has arrived, with its length,
// and not before; segments of a Write may come between.
func TestSendOfManySegments(t *testing.T) {
	raw, s := passive(t, Config{})
	memory := make([]byte, 4)
	r := s.expose(memory, rdmacm.RemoteWrite)
	raw.WriteFPDU(
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("one, ")),
		rawpeer.Tagged(wire.Tagged{Op: wire.Write, STag: r.STag(), Offset: r.Offset()}, []byte("ab")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1, Offset: 5}, []byte("two, ")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1, Offset: 10}, nil),
		rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset() + 2}, []byte("cd")),
		// The Response shows that this side has processed the segments before the request.
		raw.ReadRequest(wire.Read{}))
	raw.ReadOp(wire.ReadResponse)
	if len(s.received) > 0 {
		t.Fatal("delivered without its last segment")
	}
	raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1, Offset: 10, Last: true}, []byte("three")))
	if m := wait(t, s.received); string(m) != "one, two, three" {
		t.Errorf("%q", m)
	}
	if string(memory) != "abcd" {
		t.Errorf("%q", memory)
	}

	// Long segments go straight into the buffer, which grows.
	s.Provide(0, 150_000)
	long := randomBytes(150_000)
	for at := 0; at < len(long); at += 50_000 {
		raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 2, Offset: uint32(at), Last: at == 100_000}, long[at:at+50_000]))
	}
	if m := wait(t, s.received); !bytes.Equal(m, long) {
		t.Errorf("%d bytes, or others", len(m))
	}
}

// IW-206: sequence numbers wrap from 2^32-1 to 0.
func TestSequenceNumbersWrap(t *testing.T) {
	raw, s := passive(t, Config{})
	first, c := make(chan struct{}), s.Conn
	s.on(func(r *rdmacm.Recv) {
		if r.Release(); len(r.Bytes) == 0 && c.rx.msn[wire.QueueSend] == 1 {
			// Nothing was sent yet, and this function runs on the receiving goroutine, so it may
			// change both counters.
			c.tx.mu.Lock()
			c.rx.msn[wire.QueueSend] = 1<<32 - 2
			c.tx.msn[wire.QueueSend] = 1<<32 - 2
			c.tx.mu.Unlock()
			close(first)
			return
		}
		s.received <- nil
	})
	raw.WriteFPDU(raw.Send(nil))
	wait(t, first)
	raw.WriteFPDU(
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 1<<32 - 1}, []byte("last")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 0}, []byte("first")))
	wait(t, s.received)
	wait(t, s.received)
	good(t, post(s.Conn, send(nil), send(nil)))
	for _, want := range []uint32{1<<32 - 1, 0} {
		if f := raw.ReadOp(wire.Send); f.Untagged.MSN != want {
			t.Errorf("MSN %d, want %d", f.Untagged.MSN, want)
		}
	}
}

// IW-26: a Write is placed without a notice to the ULP. IW-62: its data is in place when a later
// Send is delivered. IW-212: an empty Write may name any tag. IW-225: a Write may reach
// from the first to the last byte of the memory.
func TestWriteIsPlaced(t *testing.T) {
	for _, crc := range []wire.MPAFlags{0, wire.MPAChecksum} {
		f := rawpeer.LinuxRequest()
		f.Flags = crc
		raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		const n = 300_000
		memory, want := make([]byte, n), randomBytes(n)
		r := s.expose(memory, rdmacm.RemoteWrite)
		var u [][]byte
		for at := 0; at < n; {
			k := min(n-at, 1+(at*7)%60000)
			u = append(u, rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: at+k == n, STag: r.STag(), Offset: r.Offset() + uint64(at)}, want[at:at+k]))
			at += k
		}
		u = append(u, rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: 0xbad, Offset: 1<<64 - 1}, nil), raw.Send([]byte("after")))
		raw.WriteFPDU(u...)
		if m := wait(t, s.received); string(m) != "after" {
			t.Errorf("the ULP gets %q before the Send", m)
		}
		if !bytes.Equal(memory, want) {
			t.Error("placed wrongly")
		}
	}
}

// IW-309: the length of an FPDU determines where the next one begins, wherever TCP divides the
// stream; with and without CRCs, small and large.
func TestAnyFragmentation(t *testing.T) {
	for _, flags := range []wire.MPAFlags{0, wire.MPAChecksum} {
		for _, cut := range []int{1, 2, 3, 7, 64, 1000, 16<<10 + 1, 1 << 20} {
			f := rawpeer.LinuxRequest()
			f.Flags = flags
			raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, func(p *rdmacm.ConnParam) { p.Receives, p.ReceiveSize = 100, 100_000 })
			size := 70_000
			if cut < 64 {
				size = 600
			}
			memory, want := make([]byte, size), randomBytes(size)
			r := s.expose(memory, rdmacm.RemoteWrite|rdmacm.RemoteRead)
			var stream []byte
			var messages [][]byte
			for i := range 12 {
				m := want[:(i*i*i*97+i)%min(size, 40_000)]
				messages = append(messages, m)
				stream = append(stream, raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, want[:min(size, 65000)]))...)
				stream = append(stream, raw.Bytes(raw.Send(m))...)
				stream = append(stream, raw.Bytes(raw.ReadRequest(wire.Read{SinkSTag: uint32(i)}))...)
				// At most 2 Reads may be outstanding, so the peer reads both Responses before it
				// continues.
				if i%2 == 1 {
					for len(stream) > 0 {
						k := min(cut, len(stream))
						raw.Write(stream[:k])
						stream = stream[k:]
					}
					raw.ReadOp(wire.ReadResponse)
					raw.ReadOp(wire.ReadResponse)
				}
			}
			for i, m := range messages {
				if got := wait(t, s.received); !bytes.Equal(got, m) {
					t.Fatalf("cut every %d bytes: message %d differs", cut, i)
				}
			}
			if !bytes.Equal(memory[:min(size, 65000)], want[:min(size, 65000)]) {
				t.Errorf("cut every %d bytes: memory differs", cut)
			}
		}
	}
}

// ULPDUs above the limit for senders are accepted, because siw sends them over loopback.
func TestLargestULPDU(t *testing.T) {
	raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), rawpeer.LinuxRequest(), func(p *rdmacm.ConnParam) { p.ReceiveSize = 1 << 16 })
	m := randomBytes(65535 - wire.UntaggedSize)
	raw.WriteFPDU(raw.Send(m))
	if got := wait(t, s.received); !bytes.Equal(got, m) {
		t.Error("differs")
	}
}

// A Send that follows a Send with Invalidate does not report an invalidation, even if both arrive
// together and the Send gets the other's buffer. This holds after a first and a repeated
// Invalidate, and for a Send of one segment or of two.
func TestSendBehindAnInvalidation(t *testing.T) {
	raw, s := passive(t, Config{})
	invalidated := make(chan uint32, 8)
	s.on(func(r *rdmacm.Recv) { invalidated <- r.Invalidated; r.Release() })
	stag := s.expose(make([]byte, 4), rdmacm.RemoteWrite).STag()
	raw.WriteFPDU(raw.Send(nil))
	if got := wait(t, invalidated); got != 0 {
		t.Errorf("invalidated %#x by the first", got)
	}
	s.Provide(2, 256)
	raw.WriteFPDU(
		rawpeer.Untagged(wire.Untagged{Op: wire.SendInvalidate, Last: true, MSN: 2, Invalidate: stag}, []byte("a")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 3}, []byte("b")),
		rawpeer.Untagged(wire.Untagged{Op: wire.SendInvalidate, Last: true, MSN: 4, Invalidate: stag}, []byte("c")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 5}, []byte("d")),
		rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 5, Offset: 1}, []byte("e")),
	)
	for i, want := range []uint32{stag, 0, stag, 0} {
		if got := wait(t, invalidated); got != want {
			t.Errorf("message %d invalidated %#x, want %#x", i, got, want)
		}
	}
}

// IW-4, IW-54: a Send with Invalidate revokes an STag of this connection, and the ULP gets the
// STag. A second Send with Invalidate of the same STag is no fault, nor is one after Deregister.
func TestSendWithInvalidate(t *testing.T) {
	for _, op := range []wire.Opcode{wire.SendInvalidate, wire.SendSolInvalidate} {
		raw, s := passive(t, Config{})
		invalidated := make(chan uint32, 4)
		s.on(func(r *rdmacm.Recv) { invalidated <- r.Invalidated; r.Release() })
		memory := make([]byte, 4)
		r, r2 := s.expose(memory, rdmacm.RemoteWrite), s.expose(memory, rdmacm.RemoteWrite)
		if err := r2.Deregister(); err != nil {
			t.Fatal(err)
		}
		inv := func(msn, stag uint32) []byte {
			return rawpeer.Untagged(wire.Untagged{Op: op, Last: true, MSN: msn, Invalidate: stag}, nil)
		}
		raw.WriteFPDU(inv(1, r.STag()), inv(2, r.STag()), inv(3, r2.STag()))
		for _, want := range []uint32{r.STag(), r.STag(), r2.STag()} {
			if got := wait(t, invalidated); got != want {
				t.Errorf("invalidated %#x, want %#x", got, want)
			}
		}
		// The invalidation alone has revoked the tag: Deregister comes later.
		raw.WriteFPDU(writeTo(r.STag(), r.Offset(), 4)...)
		raw.ReadTerminate(wire.DDPInvalidSTag)
		if err := r.Deregister(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(memory, make([]byte, 4)) {
			t.Error("the memory was written to")
		}
	}
}

// IW-16, IW-29, IW-32, IW-35, IW-37, IW-44, IW-45, IW-71: Read Requests are answered without the
// ULP, in order, with the request's STag and offset of the sink, complete and as one message.
// IW-15: each field of the Request is read at its place; IW-41: the Response is tagged.
func TestReadsAreAnswered(t *testing.T) {
	raw, s := passive(t, Config{MaxFPDU: 1024})
	memory := randomBytes(100_000)
	r := s.expose(memory, rdmacm.RemoteRead)
	raw.WriteFPDU(
		raw.ReadRequest(wire.Read{SinkSTag: 0xabad1dea, SinkOffset: 1<<64 - 50_000, Size: 50_000, SourceSTag: r.STag(), SourceOffset: r.Offset() + 50_000}),
		raw.ReadRequest(wire.Read{SinkSTag: 7, SinkOffset: 1, Size: 3, SourceSTag: r.STag(), SourceOffset: r.Offset() + 99_997}))
	f, got := raw.ReadMessage(wire.ReadResponse)
	if f.Tagged.STag != 0xabad1dea || f.Tagged.Offset != 1<<64-50_000 || !bytes.Equal(got, memory[50_000:]) {
		t.Errorf("%+v", f.Tagged)
	}
	f, got = raw.ReadMessage(wire.ReadResponse)
	if f.Tagged.STag != 7 || f.Tagged.Offset != 1 || !bytes.Equal(got, memory[99_997:]) {
		t.Errorf("%+v, %x", f.Tagged, got)
	}
	if len(s.received) > 0 {
		t.Error("the ULP was told")
	}
}

// IW-39, IW-40, IW-211: a Read of no bytes may name any tag, and gets an empty Response. The
// Response is one segment, as is each message without payload that this side sends.
func TestEmptyRead(t *testing.T) {
	raw, s := passive(t, Config{})
	raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 5, SinkOffset: 6, SourceSTag: 0xdeadbeef, SourceOffset: 1<<64 - 1}))
	if f := raw.ReadOp(wire.ReadResponse); len(f.ULPDU) != wire.TaggedSize || !f.Last || f.Tagged.STag != 5 || f.Tagged.Offset != 6 {
		t.Errorf("%x", f.ULPDU)
	}
	// The sender may still have work after the Response that has arrived.
	await.Until(t, "an empty Send is short", func() bool { return s.SendShort(nil, 0) })
	good(t, post(s.Conn, write(1, 2), send(nil), write(1, 2, nil, nil), send()))
	for _, op := range []wire.Opcode{wire.Send, wire.Write, wire.Send, wire.Write, wire.Send} {
		if f := raw.ReadOp(op); !f.Last || len(f.Payload) > 0 {
			t.Errorf("%v: %x", op, f.ULPDU)
		}
	}
	raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 5}))
	raw.ReadOp(wire.ReadResponse) // this side has sent nothing before it
}

// IW-64, IW-69: a Read returns the data of the Write before it, even if both arrived together.
func TestReadSeesTheWriteBefore(t *testing.T) {
	raw, s := passive(t, Config{})
	memory := make([]byte, 8)
	r := s.expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	for i := range uint64(100) {
		b := binary.BigEndian.AppendUint64(nil, i)
		raw.WriteFPDU(
			rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, b),
			raw.ReadRequest(wire.Read{Size: 8, SourceSTag: r.STag(), SourceOffset: r.Offset()}))
		if f := raw.ReadOp(wire.ReadResponse); !bytes.Equal(f.Payload, b) {
			t.Fatalf("%x after %x was written", f.Payload, b)
		}
	}
}

// IW-31, IW-42, IW-77: this side serves as many Reads at a time as were agreed on; one more is a
// fault. IW-118: the limit holds for each connection separately, so a connection whose limit is
// used up takes nothing from another.
func TestReadsBeyondTheDepth(t *testing.T) {
	// LingerTimeout is long, so that the peer can read up to the Terminate.
	l := listen(t, provider(t, Config{LingerTimeout: time.Minute}))
	asksTwo := rawpeer.LinuxRequest()
	asksTwo.Enhanced.ORD = 2
	greedy, other, _ := passiveOn(t, l, asksTwo, nil)
	raw, s, _ := passiveOn(t, l, asksTwo, nil)
	memory := make([]byte, 64<<20)
	r := s.expose(memory, rdmacm.RemoteRead)
	ask := func(n int) []byte {
		return raw.ReadRequest(wire.Read{Size: uint32(n), SourceSTag: r.STag(), SourceOffset: r.Offset()})
	}
	// The other connection's two Reads wait: TCP cannot take all of the first.
	lent := other.expose(memory, rdmacm.RemoteRead)
	whole := wire.Read{Size: uint32(len(memory)), SourceSTag: lent.STag(), SourceOffset: lent.Offset()}
	greedy.WriteFPDU(greedy.ReadRequest(whole), greedy.ReadRequest(whole))
	await.Until(t, "the other connection's Reads wait", func() bool { return other.tx.answering.Load() == 2 })

	raw.WriteFPDU(ask(1<<20), ask(1))
	if _, m := raw.ReadMessage(wire.ReadResponse); len(m) != 1<<20 {
		t.Error(len(m))
	}
	raw.ReadMessage(wire.ReadResponse)
	// Each answer allows the peer another Read, also if answers are sent together.
	for range 8 {
		raw.WriteFPDU(ask(1), ask(0))
		raw.ReadMessage(wire.ReadResponse)
		raw.ReadMessage(wire.ReadResponse)
		await.Until(t, "no Read is being answered", func() bool { return s.tx.answering.Load() == 0 })
	}
	// All three come at once, and TCP cannot take all of the first.
	raw.WriteFPDU(ask(len(memory)), ask(1), ask(1))
	for {
		f := raw.ReadFPDU()
		if f.Op == wire.Terminate {
			term, err := wire.ParseTermination(f.Payload)
			if err != nil || term.Cause != wire.RDMAPStream {
				t.Errorf("%+v, %v", term, err)
			}
			break
		}
	}
	raw.ReadEOF()
	raw.Conn.Close()
	s.terminated(wire.RDMAPStream, false)
}
