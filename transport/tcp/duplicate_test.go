package tcp

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A retransmission over a new connection gets the reply, even if the server reads the first copy of
// the call later from the old connection. Here the old connection has as many calls under way as it
// may, so the first copy waits in its socket. The reply must not go to the old connection instead,
// because a client of NFSv4 does not send a call again on a connection that lives (RFC 7530
// §3.1.1).
func TestAbandonedConnectionTakesNoAnswer(t *testing.T) {
	f := start(t, Config{})
	old, now := f.raw(), f.raw()
	for i := range uint32(128) {
		old.Write(fragments(rpctest.Message(i, rpctest.STALL, u32(1))))
	}
	change := rpctest.Message(500, rpctest.HOLD, u32(2)) // a change, like RENAME
	old.Write(fragments(change))
	await.Until(t, "the old connection has as many calls as it may", func() bool { return f.Stats().Gated > 0 })
	now.Write(fragments(change))
	ended(t, f.program.Arrived(2))
	f.program.Release(1)
	await.Until(t, "the old connection's copy is here", func() bool { return f.Stats().Calls == 130 })
	f.program.Release(2)
	now.SetReadDeadline(time.Now().Add(await.Limit))
	var head [8]byte
	if _, err := io.ReadFull(now, head[:]); err != nil || binary.BigEndian.Uint32(head[4:]) != 500 {
		t.Errorf("the living connection gets no answer: % x, %v", head, err)
	}
	if n := f.program.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// If a client closes a connection before the server has read all its calls, and repeats one of them
// on a new connection, from another port, it gets the result of the first execution.
func TestCallOfAClosedConnectionIsClaimedBeforeItsEndIsRead(t *testing.T) {
	f := start(t, Config{})
	old, now := f.raw(), f.raw()
	change := rpctest.Message(500, rpctest.HOLD, u32(2))
	old.Write(fragments(change))
	for i := range uint32(130) {
		old.Write(fragments(rpctest.Message(i, rpctest.STALL, u32(1))))
	}
	await.Until(t, "the old connection has as many calls as it may", func() bool { return f.Stats().Gated > 0 })
	old.(*net.TCPConn).CloseWrite()
	await.Until(t, "the server's TCP has the end", func() bool {
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
	await.Until(t, "the copy waits", func() bool { return f.rpc.Stats().ReplyCache.Joined == 1 })
	f.program.Release(2)
	now.SetReadDeadline(time.Now().Add(await.Limit))
	reply := make([]byte, 36)
	if _, err := io.ReadFull(now, reply); err != nil || binary.BigEndian.Uint64(reply[28:]) != 1 {
		t.Errorf("the new connection is told % x, %v", reply, err)
	}
	if n := f.program.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
	f.program.Release(1)
}
