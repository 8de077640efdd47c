package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A way is how this machine reaches what listens at an address of it.
type way struct {
	by   string // RDMA provider, or "tcp"
	at   netip.AddrPort
	dial func(context.Context) (rpc.Client, error)
	// device: an RDMA device carries the connection, if it can connect the machine to itself.
	device bool
}

// null makes a NULL call on a new connection: the shortest proof that a server answers.
func (w *way) null(ctx context.Context, program, version uint32) error {
	k, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{Program: program, Version: version}, nil)
}
