package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/ownaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
)

// maxDatagram is the size of the largest call and reply over UDP, in bytes. A NOTIFY has at most 1,048 bytes behind its
// header.
const maxDatagram = 2048

// A monitorSocket serves the status monitor (program 100024), and nothing else, over UDP: Linux's sm-notify, which says
// that a client has restarted, uses no other transport. It answers each call before it reads the next one.
type monitorSocket struct {
	conn *net.UDPConn
	addr netip.AddrPort
	rpc  *rpc.Server
}

// openMonitorSockets opens a UDP socket at each address on which the server listens for TCP, unless rpcbind does not name
// them to clients. The server can do without one: the locks of a client that crashes then stay until the daemon restarts.
func (s *Server) openMonitorSockets() {
	if on := s.cfg.Rpcbind; s.nsm == nil || !s.daemon || on != nil && !*on {
		return
	}
	for _, at := range s.addrs("tcp") {
		conn, err := net.ListenUDP(strings.Replace(network(at), "tcp", "udp", 1), net.UDPAddrFromAddrPort(at))
		if err != nil {
			s.log.Warn(logline.NoMonitorSocket,
				zap.Stringer("address", at), zap.Error(err))
			continue
		}
		m := &monitorSocket{conn: conn, addr: at, rpc: rpc.NewServer(rpc.Config{Workers: 1, ReplyCacheBytes: 1 << 20, Panicked: s.panicked})}
		m.rpc.Register(s.nsm)
		s.monitors = append(s.monitors, m)
	}
}

func (s *Server) closeMonitorSockets() {
	for _, m := range s.monitors {
		m.conn.Close()
		m.rpc.Close()
	}
}

// serve answers calls until the socket is closed.
func (m *monitorSocket) serve() {
	buf := make([]byte, maxDatagram+1)
	for {
		n, peer, err := m.conn.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // the kernel has no memory now
			continue
		case n > maxDatagram:
			continue
		}
		m.answer(bytes.Clone(buf[:n]), netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()))
	}
}

func (m *monitorSocket) answer(message []byte, peer netip.AddrPort) {
	conn := m.rpc.NewConn(peer, m.addr, "udp", peer.Port() > 0 && peer.Port() < 1024)
	defer conn.Close()
	d := &datagram{socket: m, peer: peer}
	d.Conn, d.Way, d.Message, d.MessageLen = conn, d, message, len(message)
	if _, ok := m.rpc.Admit(&d.Call); ok {
		m.rpc.Serve(&d.Call)
	}
}

// A datagram is a call that has come in one.
type datagram struct {
	rpc.Call
	socket *monitorSocket
	peer   netip.AddrPort
	w      *xdr.Writer
}

// Room implements rpc.Way.
func (d *datagram) Room() rpc.Room { return rpc.Room{Inline: maxDatagram} }

// Place implements rpc.Way.
func (d *datagram) Place(int) (int, bool) { return 0, false }

// Writer implements rpc.Way.
func (d *datagram) Writer(words int) *xdr.Writer {
	d.w = xdr.NewWriter(make([]byte, 0, min(words, maxDatagram)))
	return d.w
}

// Detach implements rpc.Way: message and writer belong to this call alone.
func (d *datagram) Detach() {}

// Send implements rpc.Way. The caller repeats a call whose reply is lost.
func (d *datagram) Send() { _, _ = d.socket.conn.WriteToUDPAddrPort(d.w.Bytes(), d.peer) }

// Refuse implements rpc.Way.
func (d *datagram) Refuse(rpc.Refusal) {}

// Drop implements rpc.Way.
func (d *datagram) Drop() {}

// DropAndClose implements rpc.Way.
func (d *datagram) DropAndClose() {}

// monitorAnswers reports whether a status monitor answers over UDP at an address of this machine before ctx ends.
func monitorAnswers(ctx context.Context, at netip.AddrPort) bool {
	for _, own := range ownaddr.Of(at) {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", own.String())
		if err != nil {
			continue
		}
		defer conn.Close()
		if until, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(until)
		}
		w := xdr.NewWriter(make([]byte, 0, maxDatagram))
		rpc.PutCall(w, &rpc.CallHeader{XID: uint32(time.Now().UnixNano()), Program: nsmwire.Program, Version: nsmwire.Version})
		if _, err = conn.Write(w.Bytes()); err != nil {
			continue
		}
		if _, err = conn.Read(make([]byte, maxDatagram)); err == nil {
			return true
		}
	}
	return false
}
