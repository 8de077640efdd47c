package rawpeer

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A Frame is an MPA start-up frame.
type Frame struct {
	Flags    wire.MPAFlags
	Revision wire.Revision
	// Enhanced is the data of RFC 6581, or nil for none. If it is set, WriteFrame also sets the
	// flag for it.
	Enhanced *wire.Enhanced
	Private  []byte
}

// WriteFrame sends a start-up frame: a reply if reply is true, otherwise a request.
func (p *Peer) WriteFrame(reply bool, f Frame) {
	p.T.Helper()
	h := wire.MPAHeader{Reply: reply, Flags: f.Flags, Revision: f.Revision}
	var data []byte
	if f.Enhanced != nil {
		h.Flags |= wire.MPAEnhanced
		data = make([]byte, wire.EnhancedSize)
		f.Enhanced.Put(data)
	}
	data = append(data, f.Private...)
	h.Length = len(data)
	b := make([]byte, wire.MPAHeaderSize)
	h.Put(b)
	p.Write(append(b, data...))
}

// ReadFrame receives a start-up frame. It asserts that the frame is a reply if reply is true, and
// otherwise a request, and that the reserved flags are zero.
func (p *Peer) ReadFrame(reply bool) Frame {
	p.T.Helper()
	b := p.ReadBytes(wire.MPAHeaderSize)
	h, err := wire.ParseMPAHeader(b)
	if err != nil || h.Reply != reply {
		p.T.Fatalf("raw peer: %x is not the start-up frame that was due: %v", b, err)
	}
	const known = wire.MPAMarkers | wire.MPAChecksum | wire.MPARejected | wire.MPAEnhanced
	if flags := wire.MPAFlags(b[16]); flags&^known != 0 {
		p.T.Fatalf("raw peer: flags %#02x: reserved flags are set", uint8(flags))
	}
	f := Frame{Flags: h.Flags, Revision: h.Revision, Private: p.ReadBytes(h.Length)}
	if h.Flags&wire.MPAEnhanced != 0 {
		if len(f.Private) < wire.EnhancedSize {
			p.T.Fatalf("raw peer: enhanced frame with %d bytes of private data", len(f.Private))
		}
		e := wire.ParseEnhanced(f.Private)
		f.Enhanced, f.Private = &e, f.Private[wire.EnhancedSize:]
	}
	return f
}

// LinuxRequest returns the request frame that the Linux NFS client sends over siw.
func LinuxRequest() Frame {
	return Frame{
		Revision: wire.Revision2, Enhanced: &wire.Enhanced{IRD: 128},
		Private: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3},
	}
}

// Initiate sends the request frame f, and returns the reply. The test fails if the reply rejects
// the connection.
func (p *Peer) Initiate(f Frame) Frame {
	p.T.Helper()
	p.WriteFrame(false, f)
	reply := p.ReadFrame(true)
	if reply.Flags&wire.MPARejected != 0 {
		p.T.Fatal("raw peer: rejected")
	}
	p.CRC = (f.Flags|reply.Flags)&wire.MPAChecksum != 0
	return reply
}

// Respond receives a request frame, answers it with reply, and returns the request.
func (p *Peer) Respond(reply Frame) Frame {
	p.T.Helper()
	f := p.ReadFrame(false)
	p.WriteFrame(true, reply)
	p.CRC = (f.Flags|reply.Flags)&wire.MPAChecksum != 0
	return f
}
