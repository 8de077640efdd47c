package gss

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A protector protects the data that one end of a call sends (arguments or results), and removes
// the protection from the data of the other end. Servers and clients use it. One goroutine at a
// time uses it. Its slices are reused for the next call.
type protector struct {
	ctx     Context
	service rpc.GSSService
	seq     uint32

	number [4]byte  // the bytes that a verifier signs: seq or, when a context is made, the window size
	pieces [][]byte // parts of the current message
}

// set prepares p for a call.
func (p *protector) set(ctx Context, service rpc.GSSService, seq uint32) {
	p.ctx, p.service, p.seq = ctx, service, seq
	binary.BigEndian.PutUint32(p.number[:], seq)
}

// clear removes all references to the call.
func (p *protector) clear() {
	clear(p.pieces[:cap(p.pieces)])
	p.ctx, p.pieces = nil, p.pieces[:0]
}

// foldRoom is the space, in bytes, that a reply has for the XDR padding of its payloads, which
// Writer.FoldPadding moves into the reply: four for each of at most 16 payloads.
const foldRoom = 64

// overhead returns the size of the protection.
func (p *protector) overhead() rpc.Overhead {
	mic := padded(p.ctx.MICSize())
	o := rpc.Overhead{Verifier: mic}
	switch p.service {
	case rpc.GSSIntegrity:
		// Before the results are the length of the body and the sequence number. After them is the
		// checksum.
		o.Wraps, o.Before, o.Behind = true, 2*4, 4+mic
	case rpc.GSSPrivacy:
		before, behind := p.ctx.WrapSize()
		o.Wraps, o.Rewrites = true, true
		o.Before, o.Behind = 4+before+4, padded(behind)+foldRoom
	}
	return o
}

func padded(n int) int { return n + xdr.Pad(n) }

// verify reports whether token is the peer's MIC of piece.
func (p *protector) verify(token, piece []byte) bool {
	p.pieces = append(p.pieces[:0], piece)
	return p.ctx.VerifyMIC(token, p.pieces...) == nil
}

// verifyNumber reports whether token is the peer's MIC of the call's sequence number.
func (p *protector) verifyNumber(token []byte) bool { return p.verify(token, p.number[:]) }

// putMIC writes the MIC of p.pieces as an opaque. A MIC is the checksum that GSS_GetMIC makes (RFC
// 2743 §2.3.1). putMIC returns false if w is full.
func (p *protector) putMIC(w *xdr.Writer) bool {
	n := p.ctx.MICSize()
	w.Uint32(uint32(n))
	b := w.Reserve(padded(n))
	if b == nil {
		return false
	}
	token := p.ctx.MIC(b[:0:n], p.pieces...)
	clear(b[n:])
	return len(token) == n && &token[0] == &b[0]
}

// putVerifier writes a verifier, flavor and body. The body is the MIC of piece.
func (p *protector) putVerifier(w *xdr.Writer, piece []byte) bool {
	p.pieces = append(p.pieces[:0], piece)
	w.Uint32(uint32(rpc.AuthGSS))
	return p.putMIC(w)
}

// wrap protects data in place. The parameter from is the offset of the data in w.Bytes(). Before
// the data, the caller has reserved overhead().Before bytes. wrap returns false if the protected
// data do not fit into w.
func (p *protector) wrap(w *xdr.Writer, from int) bool {
	switch p.service {
	case rpc.GSSIntegrity:
		return p.sign(w, from)
	case rpc.GSSPrivacy:
		return p.seal(w, from)
	}
	return true
}

// sign makes rpc_gss_integ_data (RFC 2203 §5.3.2.2).
func (p *protector) sign(w *xdr.Writer, from int) bool {
	p.pieces = p.pieces[:0]
	n := p.gather(w, from)
	binary.BigEndian.PutUint32(w.Bytes()[from-8:], uint32(n))
	return p.putMIC(w)
}

// seal makes rpc_gss_priv_data (RFC 2203 §5.3.2.3).
func (p *protector) seal(w *xdr.Writer, from int) bool {
	if w.FoldPadding(); w.Overflow() {
		return false
	}
	before, behind := p.ctx.WrapSize()
	head := w.Bytes()[from-4-before-4 : from-4]
	p.pieces = append(p.pieces[:0], head[4:])
	n := p.gather(w, from)
	tail := w.Reserve(padded(behind))
	if tail == nil {
		return false
	}
	clear(tail[behind:])
	binary.BigEndian.PutUint32(head, uint32(before+n+behind))
	p.pieces = append(p.pieces, tail[:behind:behind])
	p.ctx.Wrap(p.pieces...)
	return true
}

// gather writes the sequence number in front of the data. It appends to p.pieces the number and all
// data after it, with the payloads and their padding inserted. It returns the length of these pieces
// in bytes.
func (p *protector) gather(w *xdr.Writer, from int) (n int) {
	words := w.Bytes()
	at := from - 4
	binary.BigEndian.PutUint32(words[at:], p.seq)
	for _, l := range w.Payloads() {
		pad := xdr.Pad(len(l.Data))
		p.pieces = append(p.pieces, words[at:l.Position], l.Data, zeros[:pad])
		n += l.Position - at + len(l.Data) + pad
		at = l.Position
	}
	p.pieces = append(p.pieces, words[at:])
	return n + len(words) - at
}

// zeros are the padding bytes that transports send after a payload.
var zeros [3]byte

// unwrap removes the protection from body, in place: afterwards body[from:to] is the protected
// data, without the sequence number. ok is false if body is malformed, if its checksum is wrong, or
// if its sequence number is not that of the call.
func (p *protector) unwrap(body []byte) (from, to int, ok bool) {
	var d xdr.Decoder
	d.Reset(body, 0, nil)
	inner := d.Opaque(xdr.NoLimit)
	from = 4
	switch p.service {
	case rpc.GSSIntegrity:
		token := d.Opaque(xdr.NoLimit)
		if d.Finish() != nil || !p.verify(token, inner) {
			return 0, 0, false
		}
		to = from + len(inner)
	case rpc.GSSPrivacy:
		if d.Finish() != nil {
			return 0, 0, false
		}
		start, end, err := p.ctx.Unwrap(inner)
		if err != nil || start < 0 || end < start || end > len(inner) {
			return 0, 0, false
		}
		from, to = 4+start, 4+end
	default:
		return 0, 0, false
	}
	if to-from < 4 || binary.BigEndian.Uint32(body[from:]) != p.seq {
		return 0, 0, false
	}
	return from + 4, to, true
}
