package iwarp

import "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"

// marked builds FPDUs for a peer that wants markers. It copies the payload; each batch
// holds one such FPDU.
type marked struct {
	marker wire.Marker
	header [wire.LengthSize + wire.UntaggedSize + wire.MaxTerminateSize]byte
	buf    []byte
}

// fpdu appends an FPDU with header h and the next n bytes of m.
func (k *marked) fpdu(b *batch, h []byte, m *outgoing, n int, crc bool) {
	size := len(h) + n + wire.CRCSize + wire.LengthSize
	k.startFPDU(size)
	at := k.marker.Put(k.buf, h)
	for left := n; left > 0; {
		p := m.piece(left)
		at += k.marker.Put(k.buf[at:], p)
		left -= len(p)
	}
	var pad [3]byte
	at += k.marker.Put(k.buf[at:], pad[:wire.Pad(len(h)-wire.LengthSize+n)])
	k.finishFPDU(b, at, crc)
}

// whole appends a complete FPDU. It inserts the markers, and computes the CRC anew, because the
// CRC covers the markers.
func (k *marked) whole(b *batch, fpdu []byte, crc bool) {
	k.startFPDU(len(fpdu))
	k.finishFPDU(b, k.marker.Put(k.buf, fpdu[:len(fpdu)-wire.CRCSize]), crc)
}

func (k *marked) startFPDU(size int) {
	if size += wire.MaxMarkers(size); len(k.buf) < size {
		k.buf = make([]byte, size)
	}
	k.marker.Begin()
}

func (k *marked) finishFPDU(b *batch, at int, crc bool) {
	// A marker between pad and CRC is written before the CRC is computed, because the CRC covers it.
	if k.marker.Due() {
		at += k.marker.PutDue(k.buf[at:])
	}
	sum := uint32(0)
	if crc {
		sum = wire.CRC(0, k.buf[:at])
	}
	var field [wire.CRCSize]byte
	wire.PutCRC(field[:], sum)
	at += k.marker.Put(k.buf[at:], field[:])
	b.refer(k.buf[:at])
	b.full = true
}
