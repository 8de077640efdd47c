package rdma

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A prefix is the first bytes of a stranger's Position-Zero chunk, by which the call is
// judged. The peer may change its memory at any time. So the prefix is read once, and the
// call that is served begins with the bytes that were judged.
type prefix [rpc.AdmitPrefix]byte

var prefixPool = sync.Pool{New: func() any { return new(prefix) }}

// keepPrefix copies the first bytes of the call from payload memory.
func (c *call) keepPrefix(b []byte) {
	c.prefix = prefixPool.Get().(*prefix)
	c.charge(len(c.prefix))
	copy(c.prefix[:], b)
}

func (c *call) dropPrefix() {
	if c.prefix != nil {
		prefixPool.Put(c.prefix)
		c.prefix = nil
	}
}
