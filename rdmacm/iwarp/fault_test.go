package iwarp

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// quote says which headers of the faulty segment a Terminate repeats.
type quote uint8

const (
	quoteNothing quote = iota
	quoteDDP
	quoteRDMAP
)

// exposures are the memory regions of the fault tests.
type exposures struct {
	both, readOnly, writeOnly, foreign, stale rdmacm.Region
}

const exposed64 = 64

// A faultCase is a message of a raw peer whose last segment has a fault. The segments before it
// are correct.
type faultCase struct {
	name  string
	make  func(p *rawpeer.Peer, x *exposures) [][]byte
	cause wire.Cause
	quote quote
}

func untagged(h wire.Untagged, payload string) [][]byte {
	return [][]byte{rawpeer.Untagged(h, []byte(payload))}
}

func writeTo(stag uint32, offset uint64, n int) [][]byte {
	return [][]byte{rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: stag, Offset: offset}, make([]byte, n))}
}

func readFrom(p *rawpeer.Peer, stag uint32, offset uint64, n int) [][]byte {
	return [][]byte{p.ReadRequest(wire.Read{SinkSTag: 1, Size: uint32(n), SourceSTag: stag, SourceOffset: offset})}
}

// control returns a Send that is correct except for its two control bytes.
func control(b0, b1 byte) func(*rawpeer.Peer, *exposures) [][]byte {
	return func(p *rawpeer.Peer, _ *exposures) [][]byte {
		u := p.Send([]byte("payload"))
		u[0], u[1] = b0, b1
		return [][]byte{u}
	}
}

var faults = []faultCase{
	// The receiver checks versions before opcodes.
	{"IW-204 DDP version 0, untagged", control(0x40, 0x43), wire.DDPUntaggedVersion, quoteDDP},
	{"IW-204 DDP version 2, untagged", control(0x42, 0x4f), wire.DDPUntaggedVersion, quoteDDP},
	{"IW-204 DDP version 3, tagged", control(0xc3, 0x40), wire.DDPTaggedVersion, quoteDDP},
	{"IW-90 RDMAP version 0", control(0x41, 0x03), wire.RDMAPVersionFault, quoteDDP},
	{"IW-90 RDMAP version 2", control(0x41, 0x83), wire.RDMAPVersionFault, quoteDDP},
	{"IW-90 RDMAP version 3", control(0x41, 0xcf), wire.RDMAPVersionFault, quoteDDP},
	{"IW-89 Immediate Data", control(0x41, 0x48), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 Atomic Request", control(0x41, 0x4a), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 Atomic Response", control(0x41, 0x4b), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 opcode 0xf", control(0x41, 0x4f), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 tagged Send", control(0xc1, 0x43), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 tagged Read Request", control(0xc1, 0x41), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 tagged Terminate", control(0xc1, 0x47), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 untagged Write", control(0x41, 0x40), wire.RDMAPOpcode, quoteDDP},
	{"IW-89 untagged Read Response", control(0x41, 0x42), wire.RDMAPOpcode, quoteDDP},

	{"IW-220 Send on queue 1", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Send, Last: true, Queue: 1, MSN: 1}, "x")
	}, wire.DDPQueue, quoteDDP},
	{"IW-220 Send on queue 3", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Send, Last: true, Queue: 3, MSN: 1}, "x")
	}, wire.DDPQueue, quoteDDP},
	{"IW-220 Read Request on queue 0", func(p *rawpeer.Peer, x *exposures) [][]byte {
		u := readFrom(p, x.both.STag(), x.both.Offset(), 1)
		u[0][9] = 0
		return u
	}, wire.DDPQueue, quoteDDP},
	{"IW-220 Read Request on queue 7", func(p *rawpeer.Peer, x *exposures) [][]byte {
		u := readFrom(p, x.both.STag(), x.both.Offset(), 1)
		u[0][9] = 7
		return u
	}, wire.DDPQueue, quoteDDP},
	{"IW-220 Terminate on queue 0", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Terminate, Last: true, MSN: 1}, "\x20\x02\x00\x00")
	}, wire.DDPQueue, quoteDDP},
	{"IW-224 MSN 0", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Send, Last: true}, "x")
	}, wire.DDPMSN, quoteDDP},
	{"IW-224 MSN ahead", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 2}, "x")
	}, wire.DDPMSN, quoteDDP},
	{"IW-224 MSN of before", func(p *rawpeer.Peer, _ *exposures) [][]byte {
		return [][]byte{p.Send(nil), rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 1}, nil)}
	}, wire.DDPMSN, quoteDDP},
	{"IW-224 MSN of a Read Request", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.ReadRequest, Last: true, Queue: 1, MSN: 5}, string(make([]byte, 28)))
	}, wire.DDPMSN, quoteDDP},
	{"IW-222 MO gap", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: 1, Offset: 4}, "x")
	}, wire.DDPOffset, quoteDDP},
	{"IW-222 MO repeated", func(*rawpeer.Peer, *exposures) [][]byte {
		first := rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("four"))
		return [][]byte{first, first}
	}, wire.DDPOffset, quoteDDP},
	{"IW-222 MO of a Read Request", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.ReadRequest, Last: true, Queue: 1, MSN: 1, Offset: 4}, string(make([]byte, 28)))
	}, wire.DDPOffset, quoteDDP},
	{"IW-205 opcode changes within a message", func(*rawpeer.Peer, *exposures) [][]byte {
		return [][]byte{
			rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("four")),
			rawpeer.Untagged(wire.Untagged{Op: wire.SendSolicited, MSN: 1, Offset: 4, Last: true}, []byte("more")),
		}
	}, wire.RDMAPOpcode, quoteDDP},
	{"IW-221 Send beyond the promise", func(p *rawpeer.Peer, _ *exposures) [][]byte {
		return [][]byte{p.Send(nil), p.Send(nil), p.Send(nil), p.Send(nil), p.Send(nil)}
	}, wire.DDPNoBuffer, quoteDDP},
	{"IW-223 Send too long by one", func(p *rawpeer.Peer, _ *exposures) [][]byte {
		return [][]byte{p.Send(make([]byte, 257))}
	}, wire.DDPTooLong, quoteDDP},
	{"IW-223 Send too long in its second segment", func(*rawpeer.Peer, *exposures) [][]byte {
		return [][]byte{
			rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, make([]byte, 200)),
			rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1, Offset: 200, Last: true}, make([]byte, 57)),
		}
	}, wire.DDPTooLong, quoteDDP},
	{"IW-91 IW-55 Send invalidates an unknown STag", func(*rawpeer.Peer, *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.SendInvalidate, Last: true, MSN: 1, Invalidate: 0xdeadbeef}, "x")
	}, wire.RDMAPNotInvalid, quoteDDP},
	{"IW-53 IW-92 IW-106 Send invalidates another connection's STag", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return untagged(wire.Untagged{Op: wire.SendSolInvalidate, Last: true, MSN: 1, Invalidate: x.foreign.STag()}, "x")
	}, wire.RDMAPNotInvalid, quoteDDP},

	{"IW-225 Write to an unknown STag", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(0xdeadbeef, 0, 1)
	}, wire.DDPInvalidSTag, quoteDDP},
	{"IW-225 Write to STag 0", func(*rawpeer.Peer, *exposures) [][]byte { return writeTo(0, 0, 1) }, wire.DDPInvalidSTag, quoteDDP},
	{"IW-225 Write with another key byte", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag()^1, x.both.Offset(), 1)
	}, wire.DDPInvalidSTag, quoteDDP},
	{"IW-54 Write to a revoked STag", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.stale.STag(), x.stale.Offset(), 1)
	}, wire.DDPInvalidSTag, quoteDDP},
	{"IW-100 IW-101 IW-229 Write to another connection's STag", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.foreign.STag(), x.foreign.Offset(), 1)
	}, wire.DDPNotAssociated, quoteDDP},
	{"IW-104 Write without the right", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.readOnly.STag(), x.readOnly.Offset(), 1)
	}, wire.DDPInvalidSTag, quoteDDP},
	{"IW-102 Write below the base", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag(), x.both.Offset()-1, 2)
	}, wire.DDPBounds, quoteDDP},
	{"IW-102 Write one byte too long", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag(), x.both.Offset(), exposed64+1)
	}, wire.DDPBounds, quoteDDP},
	{"IW-102 Write behind the end", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag(), x.both.Offset()+exposed64, 1)
	}, wire.DDPBounds, quoteDDP},
	{"IW-225 Write that wraps", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag(), 1<<64-16, 32)
	}, wire.DDPWrap, quoteDDP},
	{"IW-225 Write up to the last address", func(_ *rawpeer.Peer, x *exposures) [][]byte {
		return writeTo(x.both.STag(), 1<<64-16, 16)
	}, wire.DDPBounds, quoteDDP},

	{"IW-38 IW-94 Read of an unknown STag", func(p *rawpeer.Peer, _ *exposures) [][]byte {
		return readFrom(p, 0xdeadbeef, 0, 1)
	}, wire.RDMAPInvalidSTag, quoteRDMAP},
	{"IW-94 Read with another key byte", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.both.STag()^1, x.both.Offset(), 1)
	}, wire.RDMAPInvalidSTag, quoteRDMAP},
	{"IW-94 Read of a revoked STag", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.stale.STag(), x.stale.Offset(), 1)
	}, wire.RDMAPInvalidSTag, quoteRDMAP},
	{"IW-95 Read of another connection's STag", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.foreign.STag(), x.foreign.Offset(), 1)
	}, wire.RDMAPNotAssociated, quoteRDMAP},
	{"IW-104 Read without the right", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.writeOnly.STag(), x.writeOnly.Offset(), 1)
	}, wire.RDMAPAccess, quoteRDMAP},
	{"IW-96 Read below the base", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.both.STag(), x.both.Offset()-1, 2)
	}, wire.RDMAPBounds, quoteRDMAP},
	{"IW-97 Read one byte too long", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.both.STag(), x.both.Offset()+1, exposed64)
	}, wire.RDMAPBounds, quoteRDMAP},
	{"IW-97 Read of 4 GiB", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.both.STag(), x.both.Offset(), 1<<32-1)
	}, wire.RDMAPBounds, quoteRDMAP},
	{"IW-98 Read that wraps", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return readFrom(p, x.both.STag(), 0xfffffffffffffff0, 32)
	}, wire.RDMAPWrap, quoteRDMAP},
	{"IW-14 Read Request with 29 bytes", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return [][]byte{append(readFrom(p, x.both.STag(), x.both.Offset(), 1)[0], 0)}
	}, wire.RDMAPStream, quoteDDP},
	{"IW-93 Read Request with 27 bytes", func(p *rawpeer.Peer, x *exposures) [][]byte {
		return [][]byte{readFrom(p, x.both.STag(), x.both.Offset(), 1)[0][:18+27]}
	}, wire.RDMAPStream, quoteDDP},
	{"IW-93 Read Request that is not the last segment", func(p *rawpeer.Peer, x *exposures) [][]byte {
		u := readFrom(p, x.both.STag(), x.both.Offset(), 1)
		u[0][0] &^= 0x40
		return u
	}, wire.RDMAPStream, quoteDDP},
	{"Read Response without a Read", func(*rawpeer.Peer, *exposures) [][]byte {
		return [][]byte{rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: 1}, []byte("x"))}
	}, wire.DDPCatastrophic, quoteDDP},
	// siw mishandled this: an MPA length below the DDP header's.
	{"ULPDU of 13 bytes, tagged", func(*rawpeer.Peer, *exposures) [][]byte {
		return [][]byte{rawpeer.Ready()[:13]}
	}, wire.MPAMarker, quoteNothing},
	{"ULPDU of 17 bytes, untagged", func(p *rawpeer.Peer, _ *exposures) [][]byte {
		return [][]byte{p.Send(nil)[:17]}
	}, wire.MPAMarker, quoteNothing},
	{"ULPDU of 1 byte", func(*rawpeer.Peer, *exposures) [][]byte { return [][]byte{{0xc1}} }, wire.MPAMarker, quoteNothing},
	{"ULPDU of no bytes", func(*rawpeer.Peer, *exposures) [][]byte { return [][]byte{{}} }, wire.MPAMarker, quoteNothing},
}

// After each fault that a peer can put into a segment (IW-20, IW-78, IW-83, IW-85, IW-86, IW-88,
// IW-218, IW-227, IW-228), this side sends a Terminate. The Terminate has the fault's cause
// (IW-18, IW-19), quotes the required headers (IW-17, IW-21, IW-22, IW-23, IW-24), and is
// untagged, on queue 2 (IW-56, IW-57). After it the connection closes in order (IW-61, IW-80,
// IW-322); the ULP gets the same cause. IW-114, IW-119: tags and promised receives belong to one
// connection. IW-59, IW-87: of two faults the first counts, and there is one Terminate. IW-81,
// IW-226, IW-321: bytes after a fault are not placed or delivered.
func TestFaults(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, f := range faults {
			name := f.name
			if crc {
				name += ", CRC"
			}
			t.Run(name, func(t *testing.T) { testFault(t, f, crc) })
		}
	}
}

func testFault(t *testing.T, f faultCase, crc bool) {
	cfg := Config{CRC: CRCOff}
	if crc {
		cfg.CRC = CRCOn
	}
	l := listen(t, provider(t, cfg))
	_, other, _ := passiveOn(t, l, rawpeer.LinuxRequest(), nil)
	raw, s, _ := passiveOn(t, l, func() rawpeer.Frame { f := rawpeer.LinuxRequest(); f.Enhanced.ORD = 2; return f }(), nil)
	// After a correct first FPDU, a Terminate may go out.
	raw.WriteFPDU(rawpeer.Ready())

	memory := make([][]byte, 5)
	for i := range memory {
		memory[i] = bytes.Repeat([]byte{0xa5}, exposed64)
	}
	const rw = rdmacm.RemoteRead | rdmacm.RemoteWrite
	x := &exposures{
		both: s.expose(memory[0], rw), readOnly: s.expose(memory[1], rdmacm.RemoteRead),
		writeOnly: s.expose(memory[2], rdmacm.RemoteWrite), foreign: other.expose(memory[3], rw), stale: s.expose(memory[4], rw),
	}
	if err := x.stale.Deregister(); err != nil {
		t.Fatal(err)
	}
	segments := f.make(raw, x)
	culprit := segments[len(segments)-1]
	// A correct Write and another fault follow it in the same TCP segment.
	segments = append(segments, writeTo(x.both.STag(), x.both.Offset(), 8)[0], rawpeer.Untagged(wire.Untagged{Op: wire.Send, Queue: 9}, nil))
	raw.WriteFPDU(segments...)

	term := raw.ReadTerminate(f.cause)
	var ddp, rdmap []byte
	if f.quote > quoteNothing {
		n := wire.UntaggedSize
		if culprit[0]&0x80 != 0 {
			n = wire.TaggedSize
		}
		ddp = culprit[:n]
		if int(term.SegmentLength) != len(culprit) {
			t.Errorf("segment length %d, want %d", term.SegmentLength, len(culprit))
		}
	}
	if f.quote == quoteRDMAP {
		rdmap = culprit[wire.UntaggedSize:]
	}
	if !bytes.Equal(term.DDP, ddp) || !bytes.Equal(term.RDMAP, rdmap) {
		t.Errorf("quotes %x and %x, want %x and %x", term.DDP, term.RDMAP, ddp, rdmap)
	}
	raw.Conn.Close()
	e := s.terminated(f.cause, false)
	if strings.HasSuffix(f.cause.String(), "unlisted") {
		t.Errorf("%v is no cause of the standards'", f.cause)
	}
	if f.cause == wire.DDPTooLong {
		if l, ok := errors.AsType[*rdmacm.LengthError](error(e)); !ok || l.Limit != 256 || l.Length != 257 {
			t.Errorf("no length in %v", e)
		}
	}
	for i, m := range memory {
		if !bytes.Equal(m, bytes.Repeat([]byte{0xa5}, exposed64)) {
			t.Errorf("memory %d was written to", i)
		}
	}
	// The connection whose memory the peer tried to reach continues.
	if err := x.foreign.Deregister(); err != nil {
		t.Fatal(err)
	}
	if got := other.p.counters.terminatesOut.Load(); got != 1 {
		t.Errorf("%d Terminates counted", got)
	}
}

// IW-308: one wrong bit anywhere after the length field is a CRC mismatch, and nothing of the
// FPDU is delivered or acted on; the fault is MPA's even if the bit makes the header wrong.
func TestCRCMismatch(t *testing.T) {
	f := rawpeer.LinuxRequest()
	f.Flags |= wire.MPAChecksum
	for i := 2; ; i++ {
		raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		raw.WriteFPDU(rawpeer.Ready())
		b := raw.Bytes(raw.Send([]byte("hello")))
		if i == len(b) {
			break
		}
		if i == 2 {
			i++ // the tagged bit changes the header's length; the other bits cover it
		}
		b[i] ^= 0x10
		raw.Write(b)
		if term := raw.ReadTerminate(wire.MPACRC); len(term.DDP) > 0 {
			t.Error("a CRC error quotes nothing")
		}
		raw.Conn.Close()
		s.terminated(wire.MPACRC, false)
		if len(s.received) > 0 {
			t.Fatalf("byte %d wrong, and delivered", i)
		}
	}
}

// IW-309: after an FPDU with a wrong CRC nothing more is delivered, because its length field
// cannot be trusted to lead to the next FPDU. This holds whether the later bytes arrive together
// with it or separately.
func TestNothingBehindAWrongCRC(t *testing.T) {
	f := rawpeer.LinuxRequest()
	f.Flags |= wire.MPAChecksum
	for _, size := range []int{0, 5, 20_000} {
		for _, cut := range []int{1000, 1 << 20} {
			raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, func(p *rdmacm.ConnParam) { p.Receives, p.ReceiveSize = 8, 40_000 })
			raw.WriteFPDU(rawpeer.Ready())
			b := raw.Bytes(raw.Send(make([]byte, size)))
			b[len(b)-1] ^= 1
			b = append(b, raw.Bytes(raw.Send([]byte("behind")))...)
			for len(b) > 0 {
				k := min(cut, len(b))
				raw.Conn.Write(b[:k]) // the connection may have ended
				b = b[k:]
			}
			raw.ReadTerminate(wire.MPACRC)
			raw.Conn.Close()
			s.terminated(wire.MPACRC, false)
			if n := len(s.received); n > 0 {
				t.Errorf("%d bytes with a wrong CRC, cut every %d: delivered %d messages", size, cut, n)
			}
		}
	}
}

// IW-308: an RDMA Write is not placed before its CRC was checked.
func TestCRCMismatchOfAWrite(t *testing.T) {
	f := rawpeer.LinuxRequest()
	f.Flags |= wire.MPAChecksum
	raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
	raw.WriteFPDU(rawpeer.Ready())
	memory := make([]byte, 60000)
	r := s.expose(memory, rdmacm.RemoteWrite)
	b := raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, bytes.Repeat([]byte{1}, len(memory))))
	b[len(b)-1] ^= 1
	raw.Write(b)
	raw.ReadTerminate(wire.MPACRC)
	raw.Conn.Close()
	s.terminated(wire.MPACRC, false)
	if !bytes.Equal(memory, make([]byte, len(memory))) {
		t.Error("placed")
	}
}

// IW-308: a Read whose Response has a wrong bit does not complete. The segment may be short or
// read straight into the sink, and may be one that the receiver has guessed.
func TestCRCMismatchOfAResponse(t *testing.T) {
	for _, size := range []int{1, 500, 60_000} {
		for bad := range 3 { // index of the bad segment
			for _, back := range []int{1, 5, 7} { // from the end: in the CRC, in the pad, in the payload
				raw, s := active(t, Config{CRC: CRCOn})
				waits := post(s.Conn, read(1, 2, make([]byte, 3*size)))
				q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
				var stream []byte
				for i := range 3 {
					b := raw.Bytes(rawpeer.Tagged(wire.Tagged{
						Op: wire.ReadResponse, Last: i == 2, STag: q.SinkSTag, Offset: q.SinkOffset + uint64(i*size),
					}, make([]byte, size)))
					if i == bad {
						b[len(b)-back] ^= 1
					}
					stream = append(stream, b...)
				}
				raw.Write(stream)
				raw.ReadTerminate(wire.MPACRC)
				raw.Conn.Close()
				s.terminated(wire.MPACRC, false)
				if r := wait(t, waits); !errors.Is(r.err, rdmacm.ErrFlushed) || r.failed != 0 {
					t.Errorf("%d bytes, byte %d from the end of segment %d: came back with %v, index %d", size, back, bad, r.err, r.failed)
				}
			}
		}
	}
}

// IW-59, IW-87: if different goroutines find faults, the first counts, and there is one
// Terminate, with an orderly end after it.
func TestFirstOfTwoFaults(t *testing.T) {
	raw, s := active(t, Config{CRC: CRCOff})
	s.life.fault(&wire.Termination{Cause: wire.DDPQueue}, nil)
	s.life.fault(&wire.Termination{Cause: wire.DDPMSN}, nil)
	raw.ReadTerminate(wire.DDPQueue)
	raw.Conn.Close()
	s.terminated(wire.DDPQueue, false)
	if s.life.abortive {
		t.Error("the connection was reset")
	}
	if n := s.p.counters.terminatesOut.Load(); n != 1 {
		t.Errorf("%d Terminates counted", n)
	}
}

// IW-302, IW-303: the receiver ignores the pad's content and, if CRCs are off, the CRC field.
func TestPadAndUnusedCRCAreIgnored(t *testing.T) {
	for _, crc := range []bool{false, true} {
		f := rawpeer.LinuxRequest()
		if crc {
			f.Flags |= wire.MPAChecksum
		}
		raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		b := raw.Bytes(raw.Send([]byte("abcde")))
		end := len(b) - wire.CRCSize
		copy(b[end-3:], []byte{1, 2, 3})
		copy(b[end:], []byte{4, 5, 6, 7})
		if crc {
			wire.PutCRC(b[end:], wire.CRC(0, b[:end]))
		}
		raw.Write(b)
		if m := wait(t, s.received); string(m) != "abcde" {
			t.Errorf("%q", m)
		}
	}
}
