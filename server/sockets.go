package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// sockets are the TCP listeners that systemd opened for the daemon (socket activation), by their
// addresses. They keep listening when the daemon ends: clients wait in their queue until the
// next process answers.
type sockets map[netip.AddrPort]net.Listener

// takeSockets takes over the sockets that systemd passed; only the first call in a process finds
// any. Each socket must have the name tcp and one of the configured addresses, because the server
// listens on no others.
func takeSockets(c *config.Config) (sockets, error) {
	all := make(sockets)
	want := addresses(c.TCP)
	for _, f := range activation.Files(true) {
		l, err := takeSocket(f)
		f.Close() // l has a descriptor of its own
		if err == nil {
			at := l.Addr().(*net.TCPAddr).AddrPort()
			all[at] = l
			if !slices.Contains(want, at) {
				err = fmt.Errorf("the socket listens on %s, and the daemon is to serve TCP on %s: write the same address in ListenStream= and tcp", at, cmp.Or(join(want), "no address"))
			}
		}
		if err != nil {
			all.close()
			return nil, &config.Error{File: "systemd's socket " + f.Name(), Err: err}
		}
	}
	return all, nil
}

// takeSocket returns the listener of a socket that systemd passed. It rejects a socket that does
// not listen for TCP or has another name than tcp.
func takeSocket(f *os.File) (net.Listener, error) {
	if f.Name() != "tcp" {
		return nil, errors.New("the daemon does not know what it is for: write FileDescriptorName=tcp in the socket unit, which only TCP can have")
	}
	listens, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listens == 0 {
		return nil, errors.New("it does not listen: write ListenStream= and Accept=no in the socket unit")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	if _, tcp := l.Addr().(*net.TCPAddr); !tcp {
		l.Close()
		return nil, fmt.Errorf("it is no TCP socket, but listens on %s %s: write ListenStream= with a port in the socket unit", l.Addr().Network(), l.Addr())
	}
	return l, nil
}

// take removes the listener of an address and returns it, or nil. The caller owns it.
func (s sockets) take(at netip.AddrPort) net.Listener {
	l := s[at]
	delete(s, at)
	return l
}

// close closes the listeners that take has not returned.
func (s sockets) close() {
	for _, l := range s {
		l.Close()
	}
}
