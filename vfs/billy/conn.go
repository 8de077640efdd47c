package billy

import (
	"net"
	"time"
)

// noConn is the connection that Handler.Mount is called with when there is no
// client yet: it has addresses, since handlers look at them, and no bytes.
type noConn struct{}

var nowhere = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

func (noConn) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (noConn) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (noConn) Close() error                     { return nil }
func (noConn) LocalAddr() net.Addr              { return nowhere }
func (noConn) RemoteAddr() net.Addr             { return nowhere }
func (noConn) SetDeadline(time.Time) error      { return nil }
func (noConn) SetReadDeadline(time.Time) error  { return nil }
func (noConn) SetWriteDeadline(time.Time) error { return nil }
