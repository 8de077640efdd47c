package iwarp

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Setup is what the two sides of a connection agreed on.
type Setup struct {
	Revision wire.Revision
	// Enhanced: the frames carried the data of RFC 6581.
	Enhanced bool
	// PeerToPeer: the initiator says by a message that it is ready. RTR is
	// the form it uses; on the responder's side, those it may use.
	PeerToPeer bool
	RTR        wire.RTR
	// CRC: FPDUs are protected by CRC32C, in both directions.
	CRC bool
	// Markers: this side puts markers into what it sends.
	Markers bool
	// PeerIRD and PeerORD are what the peer's frame said, -1 where it said nothing.
	PeerIRD, PeerORD int
	// IRD and ORD are how many RDMA Reads may be outstanding: by the peer,
	// by this side.
	IRD, ORD int
}

// A frame is a start-up frame that arrived.
type frame struct {
	wire.MPAHeader
	enhanced bool
	data     wire.Enhanced
	private  []byte // of the ULP
}

// readFrame reads one start-up frame, and not a byte more.
func readFrame(r io.Reader, reply bool) (*frame, error) {
	var head [wire.MPAHeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: start-up frame: %w", ErrSetup, err)
	}
	h, err := wire.ParseMPAHeader(head[:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSetup, err)
	}
	if h.Reply != reply {
		return nil, fmt.Errorf("%w: %v where its counterpart was due", ErrSetup, h)
	}
	if h.Revision < wire.Revision1 || h.Revision > wire.Revision2 {
		return nil, fmt.Errorf("%w: %v: revision not spoken", ErrSetup, h)
	}
	f := &frame{MPAHeader: h, private: make([]byte, h.Length)}
	// In revision 1 the bit of the enhanced data is a reserved one.
	f.enhanced = h.Flags&wire.MPAEnhanced != 0 && h.Revision >= wire.Revision2
	if f.enhanced && h.Length < wire.EnhancedSize {
		return nil, fmt.Errorf("%w: %v: no room for the enhanced data", ErrSetup, h)
	}
	if _, err := io.ReadFull(r, f.private); err != nil {
		return nil, fmt.Errorf("%w: private data: %w", ErrSetup, err)
	}
	if f.enhanced {
		f.data = wire.ParseEnhanced(f.private)
		f.private = f.private[wire.EnhancedSize:]
	}
	return f, nil
}

// appendFrame makes a start-up frame. data is nil in plain frames.
func appendFrame(h wire.MPAHeader, data *wire.Enhanced, private []byte) []byte {
	h.Length = len(private)
	if data != nil {
		h.Flags |= wire.MPAEnhanced
		h.Length += wire.EnhancedSize
	}
	b := make([]byte, wire.MPAHeaderSize+h.Length)
	h.Put(b)
	rest := b[wire.MPAHeaderSize:]
	if data != nil {
		data.Put(rest)
		rest = rest[wire.EnhancedSize:]
	}
	copy(rest, private)
	return b
}

// checkParam looks at what a ULP asks of a connection, whose private data may be most bytes.
func checkParam(p *rdmacm.ConnParam, most int) error {
	switch {
	case p.Handler == nil:
		panic("iwarp: ConnParam without Handler")
	case len(p.PrivateData) > most:
		return fmt.Errorf("%w: %d bytes of private data exceed %d", ErrSetup, len(p.PrivateData), most)
	case p.Receives < 0 || p.ReceiveSize < 0 || p.InboundReads < 0 || p.OutboundReads < 0:
		return fmt.Errorf("%w: negative ConnParam", ErrSetup)
	}
	return nil
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
