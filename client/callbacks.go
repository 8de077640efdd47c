package client

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Calls serves the calls that a server makes to its client, on the client's connection (RFC 8167,
// RFC 8881 §2.10.3.1). RPC answers them, with memory of Pool.
type Calls struct {
	RPC  *rpc.Server
	Pool *mem.Pool
}

// unserved refuses each call with PROG_UNAVAIL. A server that got no answer would wait for it, and take
// the client for one that can be called back.
var unserved = sync.OnceValues(func() (*Calls, error) {
	pool, err := mem.NewPool(mem.Config{Ceiling: mem.MinCeiling})
	if err != nil {
		return nil, err
	}
	return &Calls{rpc.NewServer(rpc.Config{Workers: 1}), pool}, nil
})
