package billy

import "net"

// mountConn is the connection that New passes to Handler.Mount, because no client has connected
// then. Handlers read its addresses. The net.Conn is one end of a closed pipe, so no data can
// pass.
type mountConn struct{ net.Conn }

func newMountConn() net.Conn {
	c, _ := net.Pipe()
	c.Close()
	return mountConn{c}
}

func (mountConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (mountConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
