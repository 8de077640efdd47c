package rawpeer

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Marked receives from a peer that puts markers into its stream, from the first FPDU on,
// and checks each marker.
type Marked struct {
	p     *Peer
	at    int // bytes of the stream received so far
	start int // offset of the current FPDU's length field in the stream
	begun bool
	// seen holds the current FPDU with its markers, because the CRC covers both.
	seen []byte
}

// Marked returns a reader of FPDUs from a stream with markers. The next byte that p receives
// must be the first of that stream.
func (p *Peer) Marked() *Marked { return &Marked{p: p} }

// read receives n bytes without the markers between them, and checks the markers.
func (m *Marked) read(n int) []byte {
	m.p.T.Helper()
	var b []byte
	for len(b) < n {
		if m.at%wire.MarkerInterval == 0 {
			raw := m.p.ReadBytes(wire.MarkerSize)
			want := 0
			if m.begun {
				want = m.at - m.start
			}
			if got := binary.BigEndian.Uint32(raw); got != uint32(want) {
				m.p.T.Fatalf("raw peer: marker at %d is %#x, want %#x", m.at, got, want)
			}
			m.seen = append(m.seen, raw...)
			m.at += wire.MarkerSize
		}
		if !m.begun {
			m.begun, m.start = true, m.at
		}
		k := min(n-len(b), wire.MarkerInterval-m.at%wire.MarkerInterval)
		raw := m.p.ReadBytes(k)
		m.seen = append(m.seen, raw...)
		b = append(b, raw...)
		m.at += k
	}
	return b
}

// ReadFPDU is like Peer.ReadFPDU, for a stream with markers. The Raw of the result leaves the
// markers out.
func (m *Marked) ReadFPDU() FPDU {
	m.p.T.Helper()
	m.begun, m.seen = false, nil
	head := m.read(wire.LengthSize)
	n := wire.ULPDULength(head)
	raw := append(head, m.read(wire.FPDUSize(n)-wire.LengthSize)...)
	end := len(raw) - wire.CRCSize
	if crc := wire.ParseCRC(raw[end:]); m.p.CRC && wire.CRC(0, m.seen[:len(m.seen)-wire.CRCSize]) != crc {
		m.p.T.Fatalf("raw peer: FPDU of %d bytes with a wrong CRC", len(raw))
	}
	return m.p.parse(raw, raw[wire.LengthSize:wire.LengthSize+n], raw[wire.LengthSize+n:end])
}

// ReadMessage is like Peer.ReadMessage, for a stream with markers.
func (m *Marked) ReadMessage(op wire.Opcode) (first FPDU, payload []byte) {
	m.p.T.Helper()
	for {
		f := m.ReadFPDU()
		if f.Op != op {
			m.p.T.Fatalf("raw peer: %v where %v was due", f.Op, op)
		}
		if payload == nil {
			first = f
		}
		payload = append(payload, f.Payload...)
		if f.Last {
			return first, payload
		}
	}
}
