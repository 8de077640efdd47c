package server

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/ownaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/transport/udp"
)

// datagrams serves the locks of NFSv3 over UDP: Linux's sm-notify, which says that a client has restarted, uses no other
// transport, nor do the lock managers of macOS and BSD. Its rpc.Server has only these programs, because NFS is not for UDP.
type datagrams struct {
	rpc     *rpc.Server
	sockets []*udp.Socket
}

// openDatagrams opens a UDP socket at each address on which the server listens for TCP. It opens none if the server does
// not register with rpcbind, because clients could not find the sockets. The server can do without one: the locks of a
// client that crashes then stay until the daemon restarts.
func (s *Server) openDatagrams() {
	if on := s.cfg.Rpcbind; s.nsm == nil || !s.daemon || on != nil && !*on {
		return
	}
	d := &datagrams{rpc: rpc.NewServer(rpc.Config{ReplyCacheBytes: 4 << 20, Panicked: s.panicked})}
	d.rpc.Register(s.nsm)
	d.rpc.Register(s.nlm)
	for _, older := range s.nlm.Older() {
		d.rpc.Register(older)
	}
	for _, at := range s.addrs("tcp") {
		socket, err := udp.Listen(strings.Replace(network(at), "tcp", "udp", 1), at, d.rpc)
		if err != nil {
			s.log.Warn(logline.NoMonitorSocket, zap.Stringer("address", at), zap.Error(err))
			continue
		}
		d.sockets = append(d.sockets, socket)
	}
	s.datagrams = d
}

// addrs returns the addresses of the sockets. It may be called if d is nil.
func (d *datagrams) addrs() (all []netip.AddrPort) {
	if d != nil {
		for _, one := range d.sockets {
			all = append(all, one.Addr())
		}
	}
	return all
}

// send sends a message from the socket that has the address from.
func (d *datagrams) send(from, to netip.AddrPort, message []byte) {
	for _, one := range d.sockets {
		if a := one.Addr(); a == from || a.Addr().IsUnspecified() && a.Port() == from.Port() && (a.Addr().Is6() || from.Addr().Is4()) {
			one.Send(from, to, message)
			return
		}
	}
}

func (d *datagrams) closeSockets() {
	if d != nil {
		for _, one := range d.sockets {
			one.Close()
		}
	}
}

// datagramAnswers reports whether the server of a mapping answers over UDP at an address of this machine before ctx ends.
func datagramAnswers(ctx context.Context, m rpcbind.Mapping) bool {
	for _, own := range ownaddr.Of(m.Address) {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", own.String())
		if err != nil {
			continue
		}
		defer conn.Close()
		if until, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(until)
		}
		w := xdr.NewWriter(make([]byte, 0, udp.MaxDatagram))
		rpc.PutCall(w, &rpc.CallHeader{XID: uint32(time.Now().UnixNano()), Program: m.Program, Version: m.Version})
		if _, err = conn.Write(w.Bytes()); err != nil {
			continue
		}
		if _, err = conn.Read(make([]byte, udp.MaxDatagram)); err == nil {
			return true
		}
	}
	return false
}
