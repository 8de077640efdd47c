package billy

import "net"

// mountConn is the connection for the call of Handler.Mount, which comes before there is a client.
// Handlers read its addresses. The net.Conn is one end of a closed pipe, so no data can pass.
type mountConn struct{ net.Conn }

func newMountConn() net.Conn {
	c, _ := net.Pipe()
	c.Close()
	return mountConn{c}
}

func (mountConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (mountConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
