package tcp

import (
	"sync"
	"sync/atomic"
)

// strangerUnsent limits the bytes that the kernel takes beyond the window of a peer that has not proved to be
// a client (rpc.Conn.Known). By default it takes up to 4 MiB for each connection. A client has that, because
// with less the server needs more system calls for large READs.
const strangerUnsent = 64 << 10

// A kernelOutput is the output of a connection that the kernel keeps until the peer acknowledges it. What the
// peer has not acknowledged from one sweep to the next is charged to the connection's ledger. So a peer that
// reads is charged nothing, however much is on its way, and no call costs a system call more.
type kernelOutput struct {
	charged atomic.Int64
	acked   atomic.Uint64 // number of bytes that the peer had acknowledged at the last look

	mu      sync.Mutex
	written uint64 // output.written at the last look
	unacked int    // what the kernel kept then
	ended   bool
}

// look asks the kernel, unless it kept nothing at the last look and nothing was written since. It returns how
// many bytes the kernel keeps. Only the sweep calls it.
func (k *kernelOutput) look(c *conn) (unacked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.written
	k.written = c.out.written.Load()
	k.acked.Store(k.written)
	if k.ended || k.unacked == 0 && k.written == before {
		return 0
	}
	k.unacked = c.stream.unacked()
	written := c.out.written.Load()
	k.acked.Store(written - min(written, uint64(k.unacked)))
	k.chargeLocked(c, max(0, k.unacked-int(written-before)))
	return k.unacked
}

// end charges nothing any more, because the socket is closed.
func (k *kernelOutput) end(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.chargeLocked(c, 0)
}

func (k *kernelOutput) chargeLocked(c *conn, now int) {
	c.ledger.Add(now - int(k.charged.Swap(int64(now))))
}
