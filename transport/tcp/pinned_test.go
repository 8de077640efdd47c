package tcp

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Replies that the peer does not read occupy no more memory than their length, however long they
// could have become. The words of a reply with a large bound are in payload memory while they are
// written. If they turn out to be few, they are copied to a shared chunk.
func TestSmallRepliesPinLittle(t *testing.T) {
	f := start(t, Config{})
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	f.serve(far)
	const calls = 200
	var in []byte
	for xid := range uint32(calls) {
		m := rpctest.Message(xid, rpctest.WIDE, u32(100))
		in = binary.BigEndian.AppendUint32(in, lastFragment|uint32(len(m)))
		in = append(in, m...)
	}
	if _, err := near.Write(in); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all calls are answered", func() bool { return f.Stats().Replies == calls })
	await.Until(t, "no call holds memory", func() bool { return f.pool.Stats().InUse == 0 })
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.out.mu.Lock()
		holders, bytes := map[any]bool{}, 0
		for _, p := range c.out.queue[c.out.head:] {
			bytes += len(p.data)
			if p.ref != nil {
				holders[p.ref] = true
			}
		}
		c.out.mu.Unlock()
		// 132 bytes each. One chunk belongs to the receiver, one to the output.
		if bytes < calls*100 || len(holders) > 2 {
			t.Errorf("%d bytes wait in %d chunks of 64 KiB", bytes, len(holders))
		}
	}
}
