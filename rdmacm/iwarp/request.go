package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A request is a valid MPA Request Frame that is not answered yet.
type request struct {
	p           *Provider
	sock        *net.TCPConn
	frame       *frame
	peer, local netip.AddrPort
	deadline    time.Time
	seat        rdmacm.Seat
}

func (r *request) Peer() netip.AddrPort  { return r.peer }
func (r *request) Local() netip.AddrPort { return r.local }
func (r *request) PrivateData() []byte   { return r.frame.private }
func (r *request) Seat() rdmacm.Seat     { return r.seat }

// Accept answers the request. The connection sends nothing before the peer's
// first FPDU has arrived (RFC 5044 §7.1.2), however early work is posted.
func (r *request) Accept(p rdmacm.ConnParam) (rdmacm.Conn, error) {
	err := checkParam(&p, rdmacm.MaxAcceptData)
	if err == nil {
		err = r.nothingYet() // the initiator must wait for the reply before it sends more
	}
	if err != nil {
		r.fail(err)
		return nil, err
	}
	s, data := r.agree(&p)
	h := wire.MPAHeader{Reply: true, Revision: r.frame.Revision}
	if s.CRC {
		h.Flags |= wire.MPAChecksum
	}
	c, err := newConn(r.p, r.sock, &p, s, r.frame.private)
	if err == nil {
		c.responder, c.tx.fenced, c.life.seat = true, true, r.seat
		_, err = r.sock.Write(appendFrame(h, data, p.PrivateData))
	}
	if err != nil {
		err = fmt.Errorf("%w: reply: %w", rdmacm.ErrSetup, err)
		r.fail(err)
		return nil, err
	}
	r.sock.SetDeadline(time.Time{})
	// The connection becomes the seat's holder before it starts, because once it runs it may end and
	// leave the seat at any time. If Seats has meanwhile decided to end the connection, Hold ends it.
	r.seat.Hold(rdmacm.HolderOf(c), &c.rx.arrived)
	c.life.start()
	return c, nil
}

// agree computes the connection's parameters and the reply's enhanced data.
func (r *request) agree(p *rdmacm.ConnParam) (agreement, *wire.Enhanced) {
	f, cfg := r.frame, &r.p.cfg
	s := agreement{MPA: rdmacm.MPA{
		Revision: uint8(f.Revision), Enhanced: f.enhanced,
		CRC:     cfg.CRC == CRCOn || f.Flags&wire.MPAChecksum != 0,
		Markers: f.Flags&wire.MPAMarkers != 0,
		PeerIRD: -1, PeerORD: -1,
		ORD: min(p.OutboundReads, cfg.MaxORD),
		IRD: cfg.MaxIRD,
	}}
	if !f.enhanced {
		return s, nil
	}
	s.PeerIRD, s.PeerORD = int(f.data.IRD), int(f.data.ORD)
	var e wire.Enhanced
	if f.data.IRD == wire.DepthUnset {
		e.ORD = wire.DepthUnset
	} else {
		// A Linux initiator sizes its queue of inbound Reads by this value. It is at least one,
		// unless the initiator allows no Reads, so that the initiator has a queue at all.
		e.ORD = uint16(min(max(s.ORD, 1), s.PeerIRD))
		s.ORD = min(s.ORD, s.PeerIRD)
	}
	if f.data.PeerToPeer {
		s.PeerToPeer, e.PeerToPeer = true, true
		const all = wire.RTRSend | wire.RTRWrite | wire.RTRRead
		if s.rtr = f.data.RTR & all; s.rtr == 0 {
			s.rtr = all
		}
		e.RTR = s.rtr
	}
	if f.data.ORD == wire.DepthUnset {
		e.IRD = wire.DepthUnset
	} else {
		// IRD never exceeds MaxIRD. An initiator that wants more lowers its ORD.
		s.IRD = min(max(s.PeerORD, p.InboundReads), cfg.MaxIRD)
		if s.rtr&wire.RTRRead != 0 {
			s.IRD = max(s.IRD, 1)
		}
		e.IRD = uint16(s.IRD)
	}
	return s, &e
}

// nothingYet returns an error if the peer sent more than its frame, or closed the connection.
func (r *request) nothingYet() error {
	raw, err := r.sock.SyscallConn()
	if err != nil {
		return err
	}
	var peekErr error
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			peekErr = fmt.Errorf("%w: %w", rdmacm.ErrSetup, err)
		case n == 0:
			peekErr = fmt.Errorf("%w: %w", rdmacm.ErrSetup, io.ErrUnexpectedEOF)
		default:
			peekErr = fmt.Errorf("%w: peer sent more before the reply", rdmacm.ErrSetup)
		}
	})
	return errors.Join(err, peekErr)
}

// Reject answers the request with a rejection. It leaves the connection open until the peer closes it,
// for at most LingerTimeout, because siw misses a rejection that a FIN follows closely.
func (r *request) Reject(private []byte) error {
	if len(private) > rdmacm.MaxRejectData {
		r.fail(rdmacm.ErrSetup)
		return fmt.Errorf("%w: %d bytes of private data exceed %d", rdmacm.ErrSetup, len(private), rdmacm.MaxRejectData)
	}
	h := wire.MPAHeader{Reply: true, Revision: r.frame.Revision, Flags: wire.MPARejected}
	h.Flags |= r.frame.Flags & wire.MPAChecksum
	var data *wire.Enhanced
	if r.frame.enhanced {
		data = &wire.Enhanced{PeerToPeer: r.frame.data.PeerToPeer, RTR: r.frame.data.RTR}
	}
	_, err := r.sock.Write(appendFrame(h, data, private))
	r.p.counters.rejected.Add(1)
	r.p.event(rdmacm.Event{Kind: rdmacm.EventRejected, Peer: r.peer, Err: err})
	if err != nil {
		r.sock.Close()
		r.seat.Leave()
		return fmt.Errorf("%w: reply: %w", rdmacm.ErrSetup, err)
	}
	r.sock.SetReadDeadline(time.Now().Add(r.p.cfg.LingerTimeout))
	go func() {
		io.Copy(io.Discard, r.sock)
		r.sock.Close()
		r.seat.Leave()
	}()
	return nil
}

// fail ends a set-up with an error.
func (r *request) fail(err error) {
	r.sock.Close()
	r.seat.Leave()
	r.p.counters.setupFailed.Add(1)
	r.p.event(rdmacm.Event{Kind: rdmacm.EventSetupFailed, Peer: r.peer, Err: err})
}

// refuse closes a connection that Seats did not admit.
func (r *request) refuse(why error) {
	r.sock.Close()
	r.p.event(rdmacm.Event{Kind: rdmacm.EventRefused, Peer: r.peer, Err: why})
}
