package tcp

import (
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

func TestSuite(t *testing.T) {
	f := start(t, Config{})
	rpctest.Suite(t, f.program, func(t *testing.T) rpc.Caller { return f.dial(DialConfig{}) })
}

// The same on a stream that is no socket: the way for what takes a socket's place.
func TestSuiteWithoutSockets(t *testing.T) {
	f := start(t, Config{})
	rpctest.Suite(t, f.program, func(t *testing.T) rpc.Caller {
		near, far := net.Pipe()
		f.serve(far)
		c := NewConn(near, DialConfig{})
		f.Cleanup(c.Close)
		return c
	})
}
