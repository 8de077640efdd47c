package iwarp

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-324: on the wire, the end of a TCP segment never cuts an untagged header in two. If CRCs are
// agreed, or FPDUs have the size of a segment, it cuts no FPDU. siw, as a receiver, depends on
// both.
func TestWholeInASegment(t *testing.T) {
	for name, cfg := range map[string]Config{
		"auto": {}, "crc": {CRC: CRCOn}, "mss": {MaxFPDU: FPDUMSS}, "1000": {MaxFPDU: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			seen := listenIn(t)
			l := listen(t, provider(t, cfg))
			raw, s, _ := passiveTo(t, rawpeer.DialSegments(t, l.Addr(), 1460), l, rawpeer.LinuxRequest(), nil)
			raw.WriteFPDU(rawpeer.Ready())
			sent := exchangeMixed(raw, s)
			stream := seen.stream(s.Conn.Local(), s.Conn.Peer())
			if len(stream.data) != stream.setup+sent {
				t.Fatalf("%d bytes seen of %d sent", len(stream.data)-stream.setup, sent)
			}
			mss := s.Conn.tx.segment + optionRoom
			if mss < 1400 || mss > 1460 {
				t.Fatalf("segments of %d bytes", mss)
			}
			whole := cfg.CRC == CRCOn || cfg.MaxFPDU == FPDUMSS
			untagged := 0
			for at := stream.setup; at < len(stream.data); {
				header := stream.data[at:]
				end := at + wire.FPDUSize(int(binary.BigEndian.Uint16(header)))
				tagged := header[wire.LengthSize]&0x80 != 0
				part := at // the bytes from at to part must be in one segment
				switch {
				case whole:
					part = end
				case !tagged:
					part = at + wire.LengthSize + wire.UntaggedSize
					if header[wire.LengthSize+1]&0xf == byte(wire.ReadRequest) {
						part += wire.ReadRequestSize
					}
				}
				if !tagged {
					untagged++
				}
				if cut := stream.cut(at, part, mss); cut >= 0 {
					t.Errorf("FPDU of %d bytes at %d, header %x: a segment ends at %d", end-at, at, header[:4], cut)
				}
				at = end
			}
			if untagged < 400 {
				t.Errorf("only %d untagged FPDUs", untagged)
			}
		})
	}
}

// IW-301: even if segments are very small, an FPDU has room for a ULPDU of 128 bytes.
func TestSmallSegments(t *testing.T) {
	l := listen(t, provider(t, Config{MaxFPDU: FPDUMSS}))
	raw, s, _ := passiveTo(t, rawpeer.DialSegments(t, l.Addr(), 100), l, rawpeer.LinuxRequest(), nil)
	raw.WriteFPDU(rawpeer.Ready())
	back := post(s.Conn, write(1, 2, make([]byte, 1000)))
	for last := false; !last; {
		f := raw.ReadOp(wire.Write)
		if last = f.Last; !last && (len(f.ULPDU) < 126 || len(f.ULPDU) > 128) { // payload is cut at multiples of 4
			t.Errorf("ULPDU of %d bytes", len(f.ULPDU))
		}
	}
	good(t, back)
}

// exchangeMixed posts chains of Writes, Sends and Reads of various sizes. It returns the number
// of bytes that this side has sent.
func exchangeMixed(raw *rawpeer.Peer, s *side) int {
	random := rand.New(rand.NewPCG(1, 2))
	payload := make([]byte, 20_000)
	for range 40 {
		var work []rdmacm.Work
		for range 24 {
			switch n := random.IntN(5000); random.IntN(4) {
			case 0, 1:
				work = append(work, write(7, 0, payload[:n]))
			case 2:
				work = append(work, send(payload[:n%900]))
			default:
				work = append(work, write(7, 0, payload[:n*4]), send(payload[:n/50]))
			}
		}
		work = append(work, write(7, 0, payload[:random.IntN(3000)]), read(9, 90, payload[:16]))
		back := post(s.Conn, work...)
		for _, w := range work {
			switch w.Op {
			case rdmacm.OpWrite:
				raw.ReadMessage(wire.Write)
			case rdmacm.OpSend:
				raw.ReadMessage(wire.Send)
			case rdmacm.OpRead:
				q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload)
				raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true, STag: q.SinkSTag, Offset: q.SinkOffset}, make([]byte, 16)))
			}
		}
		good(raw.T, back)
	}
	return int(s.tx.progress.Load())
}

// A tap records the packets on loopback.
type tap struct {
	t  *testing.T
	fd int
}

func listenIn(t *testing.T) *tap {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_NET_RAW, to see segments")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: 1}); err != nil {
		t.Fatal(err)
	}
	return &tap{t, fd}
}

// observed is the data of one direction of a TCP connection.
type observed struct {
	data  []byte
	setup int   // bytes of the start-up frame
	ends  []int // offsets of the ends of the packets seen
	first []int // offsets of their beginnings
}

// stream returns the data that the address from sent to the address to.
func (p *tap) stream(from, to netip.AddrPort) *observed {
	p.t.Helper()
	o := &observed{}
	type piece struct {
		at   uint32
		data []byte
	}
	var pieces []piece
	start, started := uint32(0), false
	buf := make([]byte, 1<<17)
	for {
		n, addr, err := unix.Recvfrom(p.fd, buf, unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		ip := buf[:n]
		if addr.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_HOST || n < 40 || ip[9] != unix.IPPROTO_TCP {
			continue
		}
		tcp := ip[int(ip[0]&0xf)*4:]
		if binary.BigEndian.Uint16(tcp) != from.Port() || binary.BigEndian.Uint16(tcp[2:]) != to.Port() {
			continue
		}
		seq := binary.BigEndian.Uint32(tcp[4:])
		if syn := tcp[13]&2 != 0; syn {
			start, started = seq+1, true
			continue
		}
		if data := tcp[tcp[12]>>4*4:]; len(data) > 0 {
			pieces = append(pieces, piece{seq - start, slices.Clone(data)})
		}
	}
	if !started {
		p.t.Fatal("the connection's set-up was not seen")
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return int(int32(a.at - b.at)) })
	for _, x := range pieces {
		at := int(x.at)
		if at > len(o.data) {
			p.t.Fatalf("%d bytes at %d were not seen", at-len(o.data), len(o.data))
		}
		o.first = append(o.first, at)
		o.ends = append(o.ends, at+len(x.data))
		o.data = append(o.data, x.data[min(len(x.data), len(o.data)-at):]...)
	}
	o.setup = wire.MPAHeaderSize + int(binary.BigEndian.Uint16(o.data[wire.MPAHeaderSize-2:]))
	return o
}

// cut returns the offset of the end of a segment between at and end, or -1. mss is the segment
// size: the tap may see several segments as one packet.
func (o *observed) cut(at, end, mss int) int {
	for i, first := range o.first {
		if o.ends[i] <= at || first >= end {
			continue
		}
		for b := first; b < end; b += mss {
			if b > at {
				return b
			}
		}
		if o.ends[i] < end {
			return o.ends[i]
		}
	}
	return -1
}
