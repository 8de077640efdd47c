package iwarp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// IW-58, IW-60, IW-79: a Terminate is taken without any receive promised, in either
// dialect; what is outstanding comes back in error, and the ULP hears the cause.
func TestTerminateReceived(t *testing.T) {
	for name, c := range map[string]struct {
		header  string
		cause   wire.Cause
		dialect wire.Dialect
		says    string
	}{
		"RFC":              {"0101e000 002e 4141 00000000 00000001 00000001 00000000 " + strings.Repeat("00", 28), wire.RDMAPBounds, wire.DialectRFC, "0/1/01"},
		"siw":              {"10050300 0012 4143 00000000 00000000 00000001 00000000", wire.Cause{Type: 1, Code: 5}, wire.DialectSIW, "0/1/05"},
		"nothing quoted":   {"20060000", wire.MPAReadDepth, wire.DialectUnknown, "2/0/06"},
		"siw, empty quote": {"12070300 0012", wire.Cause{Layer: wire.LayerMPA, Type: 1, Code: 7}, wire.DialectSIW, "2/1/07"},
		"no header at all": {"2002", wire.RDMAPCatastrophic, wire.DialectUnknown, "0/0/00"},
		"far too long":     {"11000000" + strings.Repeat("ff", 4000), wire.DDPInvalidSTag, wire.DialectUnknown, "1/1/00"},
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			s, dialed := dialing(t, Config{CRC: CRCOff, ClientServer: true}, l, func(p *rdmacm.ConnParam) { p.Receives = 0 })
			raw := l.Accept()
			raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{IRD: 3}})
			if err := wait(t, dialed); err != nil {
				t.Fatal(err)
			}
			back := post(s.Conn, read(1, 2, make([]byte, 1)))
			raw.ReadOp(wire.ReadRequest)
			raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Terminate, Last: true, Queue: 2, MSN: 1}, rawpeer.Hex(t, c.header)))
			// IW-61 for this side: nothing comes but the end.
			raw.ReadEnd()
			if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
				t.Errorf("chain came back with %v, index %d", r.err, r.failed)
			}
			e := s.terminated(c.cause, true)
			if e.Dialect != c.dialect || !strings.Contains(e.Error(), c.says) {
				t.Errorf("%v", e)
			}
			if n := s.p.Counters().TerminatesIn[c.cause]; n != 1 && c.cause.Listed() {
				t.Errorf("counted %d times", n)
			}
		})
	}
}

// A Read that the peer's Terminate quotes has failed by itself; what else is
// outstanding is flushed. What quotes no Read of this side's blames none.
func TestTerminateQuotesARead(t *testing.T) {
	for name, c := range map[string]struct {
		quote  int // which Read
		rdmap  bool
		other  bool // quote an STag and an MSN that are nobody's
		failed [2]int
		blamed int // which chain, or -1
	}{
		"by its sink":  {quote: 2, rdmap: true, failed: [2]int{0, 3}, blamed: 1},
		"by its MSN":   {quote: 1, failed: [2]int{0, 1}, blamed: 1},
		"the oldest":   {quote: 0, rdmap: true, failed: [2]int{0, 1}, blamed: 0},
		"unknown sink": {quote: 1, rdmap: true, other: true, failed: [2]int{0, 1}, blamed: -1},
		"unknown MSN":  {quote: 1, other: true, failed: [2]int{0, 1}, blamed: -1},
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := active(t, Config{CRC: CRCOff})
			back := []<-chan result{
				post(s.Conn, read(1, 0, make([]byte, 1))),
				post(s.Conn, write(7, 0, []byte("w")), read(2, 0, make([]byte, 1)), write(7, 0, []byte("w")), read(3, 0, make([]byte, 1))),
			}
			var requests []rawpeer.FPDU
			for _, op := range []wire.Opcode{wire.ReadRequest, wire.Write, wire.ReadRequest, wire.Write, wire.ReadRequest} {
				if f := raw.ReadOp(op); op == wire.ReadRequest {
					requests = append(requests, f)
				}
			}
			q := requests[c.quote]
			term := wire.Termination{Cause: wire.RDMAPInvalidSTag, SegmentLength: 46, DDP: bytes.Clone(q.ULPDU[:wire.UntaggedSize])}
			if c.rdmap {
				term.RDMAP = bytes.Clone(q.Payload)
			}
			if c.other {
				term.DDP[len(term.DDP)-5] ^= 0x40 // within the MSN
				if c.rdmap {
					term.RDMAP[3] ^= 0xff // within the sink's STag
				}
			}
			raw.WriteFPDU(rawpeer.Terminate(term))
			raw.ReadEnd()
			for i, ch := range back {
				r := wait(t, ch)
				if flushed := errors.Is(r.err, rdmacm.ErrFlushed); r.err == nil || flushed != (i != c.blamed) || r.failed != c.failed[i] {
					t.Errorf("chain %d came back with %v, index %d", i, r.err, r.failed)
				}
			}
			s.terminated(wire.RDMAPInvalidSTag, true)
		})
	}
}

// IW-320: a FIN between FPDUs is an orderly end; what was posted still goes out.
func TestPeerCloses(t *testing.T) {
	raw, s := passive(t, Config{})
	answered := make(chan result, 1)
	s.on(func(r *rdmacm.Recv) {
		r.Release()
		s.Post(&rdmacm.Chain{Work: []rdmacm.Work{send([]byte("answer"))}, Done: func(_ *rdmacm.Chain, err error, i int) { answered <- result{err, i} }})
	})
	raw.WriteFPDU(raw.Send([]byte("call")))
	raw.CloseWrite()
	if m := raw.ReadOp(wire.Send); string(m.Payload) != "answer" {
		t.Errorf("%q", m.Payload)
	}
	raw.ReadEOF()
	good(t, answered)
	if err := s.ended(); err != nil {
		t.Errorf("closed with %v", err)
	}
	if r := wait(t, post(s.Conn, send(nil))); !errors.Is(r.err, rdmacm.ErrClosed) {
		t.Errorf("chain came back with %v", r.err)
	}
}

// A Read that waits for its Response when the peer closes comes back in error.
func TestPeerClosesWithAReadOutstanding(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	back := post(s.Conn, read(1, 2, make([]byte, 1)))
	raw.ReadOp(wire.ReadRequest)
	raw.Conn.Close()
	if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
		t.Errorf("chain came back with %v, index %d", r.err, r.failed)
	}
	s.ended()
}

// A FIN inside an FPDU, or inside a message, is no orderly end; nor is a reset.
func TestPeerBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		stream func(p *rawpeer.Peer) []byte
		want   error
	}{
		"in the length": {func(p *rawpeer.Peer) []byte { return p.Bytes(p.Send(nil))[:1] }, io.ErrUnexpectedEOF},
		"in the header": {func(p *rawpeer.Peer) []byte { return p.Bytes(p.Send(nil))[:9] }, io.ErrUnexpectedEOF},
		"in the payload": {func(p *rawpeer.Peer) []byte {
			return p.Bytes(p.Send([]byte("payload")))[:24]
		}, io.ErrUnexpectedEOF},
		"in the CRC": {func(p *rawpeer.Peer) []byte { return p.Bytes(p.Send(nil))[:22] }, io.ErrUnexpectedEOF},
		"in the message": {func(p *rawpeer.Peer) []byte {
			return p.Bytes(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("one")))
		}, io.ErrUnexpectedEOF},
		"reset": {nil, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := passive(t, Config{})
			if c.stream == nil {
				raw.Reset()
			} else {
				raw.Write(c.stream(raw))
				raw.Conn.Close()
			}
			err := s.ended()
			if _, ok := errors.AsType[*BrokenError](err); !ok || !errors.Is(err, c.want) {
				t.Errorf("closed with %v", err)
			}
			if len(s.received) > 0 {
				t.Error("something was delivered")
			}
		})
	}
}

// A Send is not delivered where its CRC is wrong, however small it is and whatever
// came before.
func TestWrongCRCOfASmallSend(t *testing.T) {
	raw, s := passive(t, Config{CRC: CRCOn})
	raw.WriteFPDU(raw.Send([]byte("right")))
	wait(t, s.received)
	b := raw.Bytes(raw.Send([]byte("wrong")))
	b[wire.LengthSize+wire.UntaggedSize] ^= 1
	raw.Write(b)
	raw.ReadTerminate(wire.MPACRC)
	raw.Conn.Close()
	s.terminated(wire.MPACRC, false)
	if len(s.received) > 0 {
		t.Error("something was delivered")
	}
}

// A reset right behind a message is seen at once, although the receiver does not read
// again where it was told that nothing is left, and has answered: the peer resets
// before the answer, or sends another message before it does.
func TestResetBehindTheLastBytes(t *testing.T) {
	for name, more := range map[string]bool{"before the answer": false, "behind a second message": true} {
		t.Run(name, func(t *testing.T) {
			raw, s := passive(t, Config{})
			first, second := raw.Bytes(raw.Send([]byte("0"))), raw.Bytes(raw.Send([]byte("1")))
			s.on(func(r *rdmacm.Recv) {
				if string(r.Bytes) == "0" {
					if more {
						raw.Write(second)
					}
					raw.Reset()
				}
				r.Release()
				if !s.SendShort([][]byte{[]byte("answer")}, 0) {
					post(s.Conn, send([]byte("answer")))
				}
			})
			raw.Write(first)
			s.ended()
		})
	}
}

// Disconnect carries out what was posted, answers to Reads too, and closes this
// half; the end comes when the peer has closed its own. IW-219: what is posted
// afterwards fails, in its turn.
func TestDisconnect(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	memory := randomBytes(100_000)
	r := s.expose(memory, rdmacm.RemoteRead)
	raw.WriteFPDU(raw.ReadRequest(wire.Read{Size: uint32(len(memory)), SourceSTag: r.STag(), SourceOffset: r.Offset()}), raw.Send(nil))
	wait(t, s.received)
	big := randomBytes(16 << 20)
	sent, got := post(s.Conn, write(1, 0, big)), post(s.Conn, read(1, 2, make([]byte, 4)))
	s.Disconnect()
	s.Disconnect()
	late := post(s.Conn, send(nil))
	pending(t, late)
	if _, m := raw.ReadMessage(wire.ReadResponse); !bytes.Equal(m, memory) {
		t.Error("Response differs")
	}
	if _, m := raw.ReadMessage(wire.Write); !bytes.Equal(m, big) {
		t.Error("Write differs")
	}
	q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
	good(t, sent)
	pending(t, got)
	if raw.Pending() {
		t.Error("FIN, or more, before the Read is answered")
	}
	raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, []byte("done")))
	good(t, got)
	if r := wait(t, late); !errors.Is(r.err, rdmacm.ErrClosed) {
		t.Errorf("chain came back with %v", r.err)
	}
	raw.ReadEOF()
	raw.Conn.Close()
	if err := s.ended(); err != nil {
		t.Errorf("closed with %v", err)
	}
}

// A Read that the peer asks for while the last work of ours completes is answered
// before the end.
func TestDisconnectAnswersReads(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	memory := randomBytes(1000)
	r := s.expose(memory, rdmacm.RemoteRead)
	got := post(s.Conn, read(1, 2, make([]byte, 4)))
	s.Disconnect()
	q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
	raw.WriteFPDU(
		raw.ReadRequest(wire.Read{Size: uint32(len(memory)), SourceSTag: r.STag(), SourceOffset: r.Offset()}),
		rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, []byte("done")))
	if _, m := raw.ReadMessage(wire.ReadResponse); !bytes.Equal(m, memory) {
		t.Error("Response differs")
	}
	good(t, got)
	raw.ReadEOF()
}

// Abort resets at once; everything comes back with its reason.
func TestAbort(t *testing.T) {
	reason := errors.New("reason")
	for _, want := range []error{reason, nil} {
		raw, s := active(t, Config{CRC: CRCOff})
		back := post(s.Conn, write(1, 0, make([]byte, 64<<20)))
		s.Abort(want)
		s.Abort(errors.New("too late"))
		if want == nil {
			want = rdmacm.ErrAborted
		}
		if r := wait(t, back); !errors.Is(r.err, want) || !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
			t.Errorf("chain came back with %v, index %d", r.err, r.failed)
		}
		if err := s.ended(); !errors.Is(err, want) {
			t.Errorf("closed with %v", err)
		}
		raw.ReadReset()
	}
}

// A peer that leaves things undone loses its own connection: it takes nothing,
// does not answer a Read, or stops within an FPDU or a message.
func TestStalledPeers(t *testing.T) {
	for name, stall := range map[string]func(p *rawpeer.Peer, s *side) <-chan result{
		"takes nothing": func(p *rawpeer.Peer, s *side) <-chan result {
			return post(s.Conn, write(1, 0, make([]byte, 64<<20)))
		},
		"takes no short Sends": func(p *rawpeer.Peer, s *side) <-chan result {
			// The socket has room again, now and then, until the peer's buffers are full.
			short := [][]byte{make([]byte, inlineBytes)}
			await.Until(s.t, "the connection ends", func() bool {
				for s.SendShort(short, 0) {
				}
				select {
				case <-s.Conn.Done():
					return true
				default:
					return false
				}
			})
			return nil
		},
		"does not answer a Read": func(p *rawpeer.Peer, s *side) <-chan result {
			return post(s.Conn, read(1, 0, make([]byte, 10)))
		},
		"stops within a Response": func(p *rawpeer.Peer, s *side) <-chan result {
			back := post(s.Conn, read(1, 0, make([]byte, 10)))
			q := wire.ParseRead(p.ReadOp(wire.ReadRequest).Payload)
			p.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, STag: q.SinkSTag, Offset: q.SinkOffset}, []byte("12345")))
			return back
		},
		"stops within an FPDU": func(p *rawpeer.Peer, s *side) <-chan result {
			p.Write(p.Bytes(p.Send([]byte("payload")))[:25])
			return nil
		},
		"stops within a message": func(p *rawpeer.Peer, s *side) <-chan result {
			p.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("half")))
			return nil
		},
		"does not close": func(p *rawpeer.Peer, s *side) <-chan result {
			s.Disconnect()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := active(t, Config{CRC: CRCOff, StallTimeout: 100 * time.Millisecond})
			back := stall(raw, s)
			if back != nil {
				if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrTimeout) || r.failed != 0 {
					t.Errorf("chain came back with %v, index %d", r.err, r.failed)
				}
			}
			if err := s.ended(); !errors.Is(err, rdmacm.ErrTimeout) {
				t.Errorf("closed with %v", err)
			}
		})
	}
}

// A Terminate goes out between FPDUs only. A peer that does not read meanwhile is
// reset after LingerTimeout; one that reads gets the FPDU to its end, and then the
// Terminate.
func TestTerminateWhileTheSocketIsFull(t *testing.T) {
	for _, reads := range []bool{true, false} {
		linger := time.Minute
		if !reads {
			linger = 50 * time.Millisecond
		}
		raw, s := active(t, Config{CRC: CRCOn, LingerTimeout: linger})
		back := post(s.Conn, write(1, 0, make([]byte, 64<<20)))
		pending(t, back)
		raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Queue: 9, MSN: 1, Last: true}, nil))
		if reads {
			for {
				if f := raw.ReadFPDU(); f.Op == wire.Terminate {
					break
				}
			}
			raw.ReadEOF()
			raw.Conn.Close()
		}
		if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrFlushed) {
			t.Errorf("chain came back with %v", r.err)
		}
		s.terminated(wire.DDPQueue, false)
		if !reads {
			raw.ReadReset()
		}
	}
}

// A peer that does not close after our Terminate is reset after LingerTimeout:
// IW-82.
func TestPeerIgnoresTheTerminate(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff, LingerTimeout: 50 * time.Millisecond})
	raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Queue: 9, MSN: 1, Last: true}, nil))
	raw.ReadTerminate(wire.DDPQueue)
	s.terminated(wire.DDPQueue, false)
}

// IW-81: bytes of an FPDU that is under way when this side finds a fault are not
// placed. IW-105: nor are they after Deregister, which does not wait for the peer.
func TestDeregisterDuringAWrite(t *testing.T) {
	for _, head := range []int{1000, 20_000} {
		raw, s := passive(t, Config{})
		memory := make([]byte, 60_000)
		r := s.expose(memory, rdmacm.RemoteWrite)
		b := raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, bytes.Repeat([]byte{1}, len(memory))))
		raw.WriteFPDU(raw.Send(nil))
		wait(t, s.received)
		raw.Write(b[:16+head])
		// The peer stops; the memory is revoked, and used for something else.
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			memory[i] = 9
		}
		raw.Write(append(b[16+head:], raw.Bytes(raw.Send(nil))...))
		raw.ReadTerminate(wire.DDPInvalidSTag)
		raw.Conn.Close()
		s.terminated(wire.DDPInvalidSTag, false)
		if !bytes.Equal(memory, bytes.Repeat([]byte{9}, len(memory))) {
			t.Error("placed after Deregister")
		}
	}
}

// IW-84, IW-105: memory that is revoked while a Read of it is being answered is not
// read any more: what TCP has not taken of the FPDUs under way was copied, the
// rest is not sent, and the Terminate quotes what was left of the request.
func TestDeregisterDuringARead(t *testing.T) {
	for _, crc := range []CRCMode{CRCOff, CRCOn} {
		// The peer has all the time that it needs to read up to the Terminate.
		raw, s := passive(t, Config{CRC: crc, LingerTimeout: time.Minute})
		raw.CRC = crc == CRCOn
		memory := bytes.Repeat([]byte{1}, 64<<20)
		r := s.expose(memory, rdmacm.RemoteRead)
		raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 5, SinkOffset: 500, Size: uint32(len(memory)), SourceSTag: r.STag(), SourceOffset: r.Offset()}))
		first := raw.ReadOp(wire.ReadResponse)
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			memory[i] = 2
		}
		got := len(first.Payload)
		for {
			f := raw.ReadFPDU()
			if f.Op == wire.Terminate {
				term, err := wire.ParseTermination(f.Payload)
				if err != nil || term.Cause != wire.RDMAPInvalidSTag || len(term.RDMAP) == 0 {
					t.Fatalf("%+v, %v", term, err)
				}
				q := wire.ParseRead(term.RDMAP)
				if q.SinkOffset != 500+uint64(got) || q.SourceOffset != r.Offset()+uint64(got) || int(q.Size) != len(memory)-got {
					t.Errorf("%d bytes were answered; quoted %+v", got, q)
				}
				break
			}
			if !bytes.Equal(f.Payload, bytes.Repeat([]byte{1}, len(f.Payload))) {
				t.Fatal("memory was read after Deregister")
			}
			got += len(f.Payload)
		}
		raw.ReadEOF()
		raw.Conn.Close()
		s.terminated(wire.RDMAPInvalidSTag, false)
	}
}

// IW-103: the end of a connection unties all its memory.
func TestRegisterAfterTheEnd(t *testing.T) {
	_, s := active(t, Config{CRC: CRCOff})
	r := s.expose(make([]byte, 8), rdmacm.RemoteRead)
	s.Abort(nil)
	s.ended()
	if s.p.stags.lookup(r.STag()) != nil {
		t.Error("the STag lives on")
	}
	if _, err := s.Register(make([]byte, 8), rdmacm.RemoteRead); !errors.Is(err, rdmacm.ErrClosed) {
		t.Errorf("Register: %v", err)
	}
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}
