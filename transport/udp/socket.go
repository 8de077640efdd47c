package udp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// MaxDatagram is the size of the largest call and reply, in bytes.
const MaxDatagram = 8192

// A Socket serves the programs of an rpc.Server at one address.
type Socket struct {
	conn *net.UDPConn
	addr netip.AddrPort
	rpc  *rpc.Server
	// wildcard is true if the socket is for all addresses of the machine. Each datagram then says to which one it came.
	wildcard bool
	peers    peers
	// running counts the calls that have come and not ended.
	running atomic.Int32
}

// Listen opens a socket at an address, which may be unspecified, for the programs of server. network is "udp", "udp4" or
// "udp6". The caller calls Serve, and closes server after the Socket.
func Listen(network string, at netip.AddrPort, server *rpc.Server) (*Socket, error) {
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: conn, addr: conn.LocalAddr().(*net.UDPAddr).AddrPort(), rpc: server, wildcard: at.Addr().IsUnspecified()}
	s.peers.begin()
	if s.wildcard {
		if err := tellsDestination(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// Addr returns the address of the socket.
func (s *Socket) Addr() netip.AddrPort { return s.addr }

// Close ends Serve. Calls that have begun run to their end, without replies.
func (s *Socket) Close() { s.conn.Close() }

// Serve takes calls until Close. It runs what does not have to wait, and leaves the rest to the server's executor.
func (s *Socket) Serve() {
	defer s.peers.end()
	buf, oob := make([]byte, MaxDatagram+1), make([]byte, oobSize)
	for {
		n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(buf, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // the kernel has no memory now
			continue
		case n > MaxDatagram:
			continue
		}
		local := s.addr
		if s.wildcard {
			to, ok := destination(oob[:oobn])
			if !ok {
				continue
			}
			local = netip.AddrPortFrom(to, s.addr.Port())
		}
		peer := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if s.running.Load() >= maxRunningOfAll {
			continue
		}
		if one, conn := s.peers.conn(s.rpc, peer, local, time.Now()); conn != nil {
			s.take(one, conn, bytes.Clone(buf[:n]))
		}
	}
}

// Send sends a message from an address that Serve has seen in a call (rpc.Conn.Local). It does not block. A message that
// is lost is repeated by the peer, so errors are of no use.
func (s *Socket) Send(from, to netip.AddrPort, message []byte) {
	var oob []byte
	if s.wildcard {
		oob = source(from.Addr(), s.addr.Addr().Is6())
	}
	_, _, _ = s.conn.WriteMsgUDPAddrPort(message, oob, to)
}

func (s *Socket) take(of *peer, conn *rpc.Conn, message []byte) {
	d := &datagram{socket: s, of: of, size: len(message)}
	s.running.Add(1)
	of.running.Add(1)
	d.Conn, d.Way, d.Message, d.MessageLen = conn, d, message, len(message)
	if _, ok := s.rpc.Admit(&d.Call); ok {
		s.rpc.Serve(&d.Call)
	}
}

// A datagram is a call that has come in one.
type datagram struct {
	rpc.Call
	socket *Socket
	of     *peer
	size   int // of the message, in bytes
	w      *xdr.Writer
}

// ended counts the call no more.
func (d *datagram) ended() {
	d.of.running.Add(-1)
	d.socket.running.Add(-1)
}

// Room implements rpc.Way.
func (d *datagram) Room() rpc.Room { return rpc.Room{Inline: MaxDatagram} }

// Place implements rpc.Way.
func (d *datagram) Place(int) (int, bool) { return 0, false }

// Writer implements rpc.Way.
func (d *datagram) Writer(words int) *xdr.Writer {
	d.w = xdr.NewWriter(make([]byte, 0, min(words, MaxDatagram)))
	return d.w
}

// Detach implements rpc.Way: message and writer belong to this call alone.
func (d *datagram) Detach() {}

// Send implements rpc.Way. The caller repeats a call whose reply is lost. Send drops a reply that is longer than its call,
// because the call may come from another machine than the one whose address it bears.
func (d *datagram) Send() {
	d.ended()
	if d.w.Len() > d.size {
		return
	}
	d.socket.Send(d.Conn.Local, d.Conn.Peer, d.w.Bytes())
}

// Refuse implements rpc.Way.
func (d *datagram) Refuse(rpc.Refusal) { d.ended() }

// Drop implements rpc.Way.
func (d *datagram) Drop() { d.ended() }

// DropAndClose implements rpc.Way: the next datagram of the peer begins another conversation.
func (d *datagram) DropAndClose() {
	d.ended()
	d.Conn.Close()
}
