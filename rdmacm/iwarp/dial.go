package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Dial connects to addr. ctx and SetupTimeout limit the time of the set-up, not of the
// connection. If the peer does not support MPA revision 2, Dial connects once more by revision 1.
func (p *Provider) Dial(ctx context.Context, addr netip.AddrPort, param rdmacm.ConnParam) (rdmacm.Conn, error) {
	if err := checkParam(&param, rdmacm.MaxRequestData); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.SetupTimeout)
	defer cancel()
	c, err := p.dial(ctx, addr, &param, p.cfg.Revision)
	if errors.Is(err, errRevision) {
		c, err = p.dial(ctx, addr, &param, wire.Revision1)
	}
	if err == nil {
		c.life.start()
		return c, nil
	}
	kind := rdmacm.EventSetupFailed
	if _, ok := errors.AsType[*rdmacm.RejectedError](err); ok {
		kind = rdmacm.EventRejected
		p.counters.rejected.Add(1)
	} else {
		p.counters.setupFailed.Add(1)
	}
	p.event(rdmacm.Event{Kind: kind, Peer: addr, Dialed: true, Err: err})
	return nil, err
}

// errRevision means that the peer refused revision 2 and may accept revision 1.
var errRevision = fmt.Errorf("%w: peer does not take part in MPA revision 2", rdmacm.ErrSetup)

func (p *Provider) dial(ctx context.Context, addr netip.AddrPort, param *rdmacm.ConnParam, rev wire.Revision) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	sock := conn.(*net.TCPConn)
	// When ctx ends, the reads and writes below end.
	stop := context.AfterFunc(ctx, func() { sock.SetDeadline(time.Unix(1, 0)) })
	c, err := p.initiate(sock, param, rev)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		sock.Close()
		if ctx.Err() != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("%w: %w: %w", rdmacm.ErrSetup, rdmacm.ErrTimeout, ctx.Err())
			}
			return nil, fmt.Errorf("%w: %w", rdmacm.ErrSetup, ctx.Err())
		}
		return nil, err
	}
	sock.SetDeadline(time.Time{})
	return c, nil
}

// initiate performs the set-up on a connected TCP socket.
func (p *Provider) initiate(sock *net.TCPConn, param *rdmacm.ConnParam, rev wire.Revision) (*Conn, error) {
	h := wire.MPAHeader{Revision: rev}
	if p.cfg.CRC != CRCOff {
		h.Flags |= wire.MPAChecksum
	}
	mine := wire.Enhanced{
		IRD: uint16(min(param.InboundReads, p.cfg.MaxIRD)),
		ORD: uint16(min(param.OutboundReads, p.cfg.MaxORD)),
	}
	data := &mine
	if !p.cfg.ClientServer {
		mine.PeerToPeer, mine.RTR = true, p.cfg.RTR
	}
	if rev < wire.Revision2 {
		data = nil
	}
	var f *frame
	_, err := sock.Write(appendFrame(h, data, param.PrivateData))
	if err != nil {
		err = fmt.Errorf("%w: request: %w", rdmacm.ErrSetup, err)
	} else {
		f, err = readFrame(sock, true)
	}
	if err != nil {
		// A responder that does not know revision 2 closes the connection.
		gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		if rev >= wire.Revision2 && gone {
			err = fmt.Errorf("%w: %w", errRevision, err)
		}
		return nil, err
	}
	if f.Flags&wire.MPARejected != 0 {
		return nil, &rdmacm.RejectedError{PrivateData: f.private}
	}
	if f.enhanced != (rev >= wire.Revision2) {
		if !f.enhanced {
			return nil, errRevision
		}
		return nil, fmt.Errorf("%w: %v: enhanced reply to a plain request", rdmacm.ErrSetup, f.MPAHeader)
	}
	s := agreement{MPA: rdmacm.MPA{
		Revision: uint8(f.Revision), Enhanced: f.enhanced,
		CRC:     (h.Flags|f.Flags)&wire.MPAChecksum != 0,
		Markers: f.Flags&wire.MPAMarkers != 0,
		PeerIRD: -1, PeerORD: -1,
		IRD: p.cfg.MaxIRD, ORD: int(mine.ORD),
	}}
	if f.enhanced {
		if cause := s.settle(&mine, &f.data, p.cfg.MaxIRD); cause != (wire.Cause{}) {
			return nil, p.refuse(sock, &s, cause)
		}
	}
	c, err := newConn(p, sock, param, s, f.private)
	if err != nil {
		return nil, p.refuse(sock, &s, wire.MPACatastrophic)
	}
	switch {
	case s.PeerToPeer:
		c.tx.rtr = s.rtr
	case !p.cfg.ClientServer:
		c.tx.rtr = wire.RTRWrite
	}
	return c, nil
}

// settle applies the responder's answer about read depths and the ready-to-receive message. It
// returns the zero Cause if this side accepts the answer.
func (s *agreement) settle(mine, theirs *wire.Enhanced, maxIRD int) wire.Cause {
	s.PeerIRD, s.PeerORD = int(theirs.IRD), int(theirs.ORD)
	s.IRD = int(mine.IRD)
	if theirs.ORD != wire.DepthUnset {
		if s.PeerORD > maxIRD {
			return wire.MPAReadDepth
		}
		s.IRD = max(s.IRD, s.PeerORD)
	}
	if theirs.IRD != wire.DepthUnset {
		s.ORD = min(s.ORD, s.PeerIRD)
	}
	if !mine.PeerToPeer || !theirs.PeerToPeer {
		return wire.Cause{}
	}
	s.PeerToPeer = true
	for _, form := range []wire.RTR{wire.RTRWrite, wire.RTRRead, wire.RTRSend} {
		// A ready-to-receive Read needs an entry in the responder's queue of Reads.
		fits := form != wire.RTRRead || theirs.IRD > 0
		if mine.RTR&theirs.RTR&form != 0 && fits {
			s.rtr = form
			return wire.Cause{}
		}
	}
	return wire.MPANoRTR
}

// refuse ends a set-up: it sends a Terminate, and returns the error for the caller of Dial.
func (p *Provider) refuse(sock *net.TCPConn, s *agreement, cause wire.Cause) error {
	t := wire.Termination{Cause: cause}
	b := make([]byte, wire.FPDUSize(wire.UntaggedSize+t.Size()))
	putTerminate(b, &t, s.CRC)
	if s.Markers {
		var out batch
		new(marked).whole(&out, b, s.CRC)
		b = unsafe.Slice(out.iov[0].Base, out.left)
	}
	p.counters.terminatesOut.Add(1)
	if _, err := sock.Write(b); err == nil {
		sock.CloseWrite()
		sock.SetReadDeadline(time.Now().Add(p.cfg.LingerTimeout))
		io.Copy(io.Discard, sock)
	}
	return fmt.Errorf("%w: %w", rdmacm.ErrNoAgreement, &TerminateError{Cause: cause})
}

// putTerminate writes the FPDU of a Terminate message into b, and returns its length in bytes.
func putTerminate(b []byte, t *wire.Termination, crc bool) int {
	h := wire.Untagged{Op: wire.Terminate, Last: true, Queue: wire.QueueTerminate, MSN: 1}
	h.Put(b[wire.LengthSize:])
	t.Put(b[wire.LengthSize+wire.UntaggedSize:])
	ulpdu := b[wire.LengthSize : wire.LengthSize+wire.UntaggedSize+t.Size()]
	return wire.PutFPDU(b, ulpdu, crc)
}
