package tcp

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// deafen makes the kernel drop all packets that arrive for c, as a network does that has lost the way to
// it.
func deafen(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	if ctlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}); ctlErr != nil || err != nil {
		t.Fatal(ctlErr, err)
	}
}

// If the network loses the answer, the client comes back over a new connection, from another port, and
// repeats its call. It gets the result of the first execution: a connection on which TCP repeats what it
// has sent counts as abandoned.
func TestCallOfAConnectionThatNothingReaches(t *testing.T) {
	f := start(t, Config{})
	old, now := f.raw(), f.raw()
	change := rpctest.Message(500, rpctest.HOLD, u32(2))
	old.Write(fragments(change))
	ended(t, f.program.Arrived(2))
	deafen(t, old)
	f.program.Release(2)
	await.Until(t, "TCP repeats the answer", func() bool {
		f.Server.mu.Lock()
		defer f.Server.mu.Unlock()
		for c := range f.conns {
			if c.stream.left() {
				return true
			}
		}
		return false
	})
	now.Write(fragments(change))
	now.SetReadDeadline(time.Now().Add(await.Limit))
	reply := make([]byte, 36)
	if _, err := io.ReadFull(now, reply); err != nil || binary.BigEndian.Uint32(reply[4:]) != 500 {
		t.Errorf("the new connection is told % x, %v", reply, err)
	}
	if n := f.program.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}
