package iwarp

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// IW-320: a FIN between FPDUs is an orderly end; posted work still goes out.
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

// If the peer closes the connection, a Read that waits for its Response completes with an error.
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

// IW-320: a FIN inside an FPDU, or inside a message, is not an orderly end: Closed gets a
// BrokenError. A reset has the same result.
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

// A Send with a wrong CRC is not delivered, however small it is and whatever came before.
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

// This side notices a reset right after a message at once. If the kernel has reported that the
// socket is empty and this side has answered, the receiver does not read again, but it gets the
// reset all the same. The peer resets before the answer, or after another message.
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

// Disconnect completes the posted work and the answers to the peer's Reads, and then closes this
// side's half of the connection. The connection ends when the peer has closed its half. IW-219:
// work posted after Disconnect fails, after the work before it has completed.
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
	if s.SendShort([][]byte{[]byte("late")}, 0) {
		t.Error("a Send is taken behind the end")
	}
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

// If the peer requests a Read while this side's last work completes, the Read is answered before
// the end.
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

// Abort resets the connection at once. All work completes with the reason for the Abort.
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

// A peer that makes no progress loses its connection: one that reads nothing, does not answer a
// Read, stops within an FPDU or a message, or does not close.
func TestStalledPeers(t *testing.T) {
	for name, stall := range map[string]func(p *rawpeer.Peer, s *side) <-chan result{
		"takes nothing": func(p *rawpeer.Peer, s *side) <-chan result {
			return post(s.Conn, write(1, 0, make([]byte, 64<<20)))
		},
		"takes no short Sends": func(p *rawpeer.Peer, s *side) <-chan result {
			// Now and then the socket has room again, until the peer's buffers are full.
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
