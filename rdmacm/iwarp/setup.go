package iwarp

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A frame is a received MPA start-up frame.
type frame struct {
	wire.MPAHeader
	enhanced bool
	data     wire.Enhanced
	private  []byte // the ULP's private data
}

// readFrame reads one start-up frame and no byte beyond it. The frame must be a reply if reply is
// true, and otherwise a request.
func readFrame(r io.Reader, reply bool) (*frame, error) {
	var head [wire.MPAHeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: start-up frame: %w", rdmacm.ErrSetup, err)
	}
	h, err := wire.ParseMPAHeader(head[:])
	if err == wire.ErrKey && !reply {
		err = fmt.Errorf("%w: %w", err, &doorway.Mistake{Speaks: doorway.ProtocolOf(head[:]), Port: "NFS over RDMA"})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", rdmacm.ErrSetup, err)
	}
	if h.Reply != reply {
		return nil, fmt.Errorf("%w: %v where its counterpart was due", rdmacm.ErrSetup, h)
	}
	if h.Revision < wire.Revision1 || h.Revision > wire.Revision2 {
		return nil, fmt.Errorf("%w: %v: revision not spoken", rdmacm.ErrSetup, h)
	}
	f := &frame{MPAHeader: h, private: make([]byte, h.Length)}
	// In revision 1 the bit for the enhanced data is reserved.
	f.enhanced = h.Flags&wire.MPAEnhanced != 0 && h.Revision >= wire.Revision2
	if f.enhanced && h.Length < wire.EnhancedSize {
		return nil, fmt.Errorf("%w: %v: no room for the enhanced data", rdmacm.ErrSetup, h)
	}
	if _, err := io.ReadFull(r, f.private); err != nil {
		return nil, fmt.Errorf("%w: private data: %w", rdmacm.ErrSetup, err)
	}
	if f.enhanced {
		f.data = wire.ParseEnhanced(f.private)
		f.private = f.private[wire.EnhancedSize:]
	}
	return f, nil
}

// appendFrame returns the bytes of a start-up frame. data is nil for a frame without the data of
// RFC 6581.
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

// checkParam checks the ULP's parameters. most is the largest length of the private data, in bytes.
func checkParam(p *rdmacm.ConnParam, most int) error {
	switch {
	case p.Handler == nil:
		panic("iwarp: ConnParam without Handler")
	case len(p.PrivateData) > most:
		return fmt.Errorf("%w: %d bytes of private data exceed %d", rdmacm.ErrSetup, len(p.PrivateData), most)
	case p.Receives < 0 || p.ReceiveSize < 0 || p.InboundReads < 0 || p.OutboundReads < 0:
		return fmt.Errorf("%w: negative ConnParam", rdmacm.ErrSetup)
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
