package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A way is one method by which this process can connect to a listener of its own machine.
type way struct {
	by   string // RDMA provider, or "tcp"
	at   netip.AddrPort
	dial func(context.Context) (rpc.Client, error)
	// device is true if an RDMA device carries the connection. Not every device can connect a
	// machine to itself.
	device bool
}

// null makes a NULL call on a new connection. This is the shortest proof that a server answers.
func (w *way) null(ctx context.Context, program, version uint32) error {
	k, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{Program: program, Version: version}, nil)
}
