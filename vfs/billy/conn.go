package billy

import "net"

// mountConn is the connection that Handler.Mount is called with before there is
// a client. It has addresses, because handlers look at them, and no bytes: the
// net.Conn is one end of a pipe that is closed.
type mountConn struct{ net.Conn }

func newMountConn() net.Conn {
	c, _ := net.Pipe()
	c.Close()
	return mountConn{c}
}

func (mountConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (mountConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
