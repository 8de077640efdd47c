package iwarp

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-58, IW-60, IW-79: this side accepts a Terminate of either dialect, even if it has promised
// no receive. Outstanding work completes with an error, and the ULP gets the cause.
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
			// IW-61: after a Terminate from the peer, this side sends nothing more and ends the
			// connection.
			raw.ReadEnd()
			if r := wait(t, back); !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
				t.Errorf("chain came back with %v, index %d", r.err, r.failed)
			}
			e := s.terminated(c.cause, true)
			if e.Dialect != c.dialect || !strings.Contains(e.Error(), c.says) {
				t.Errorf("%v", e)
			}
			if n := s.p.counters.terminatesIn.Load(); n != 1 {
				t.Errorf("counted %d times", n)
			}
		})
	}
}

// A Read that the peer's Terminate quotes fails with the Terminate's cause. Other outstanding
// work is flushed. If the quote matches no Read of this side, all work is flushed.
func TestTerminateQuotesARead(t *testing.T) {
	for name, c := range map[string]struct {
		quote  int // index of the quoted Read
		rdmap  bool
		other  bool // quote an STag and an MSN that were not used
		failed [2]int
		blamed int // index of the chain that fails with the Terminate's cause, or -1
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

// A Terminate is sent only between FPDUs. If the socket is full, a peer that reads gets the rest
// of the FPDU and then the Terminate. A peer that does not read is reset after LingerTimeout.
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

// A peer that does not close the connection after this side's Terminate is reset after
// LingerTimeout (IW-82).
func TestPeerIgnoresTheTerminate(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff, LingerTimeout: 50 * time.Millisecond})
	raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Queue: 9, MSN: 1, Last: true}, nil))
	raw.ReadTerminate(wire.DDPQueue)
	s.terminated(wire.DDPQueue, false)
}
