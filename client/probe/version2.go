package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// RPCRDMA2 holds the properties that the server announces in RPC-over-RDMA version 2
// (draft-ietf-nfsv4-rpcrdma-version-two-07 §5.2).
type RPCRDMA2 struct {
	// Send and Receive are the lengths of the longest messages that the server sends and receives, in
	// bytes.
	Send    uint32 `json:"send"`
	Receive uint32 `json:"receive"`
	// Segment is the length of the longest segment of a chunk, in bytes, and Segments the greatest number
	// of segments in one call.
	Segment  uint32 `json:"segment"`
	Segments uint32 `json:"segments"`
	// Permitted is how many messages the server permits a new client to send before its answers permit
	// more.
	Permitted uint32 `json:"permitted"`
}

// version2 asks the server, on a connection of its own, whether it speaks version 2 of RPC-over-RDMA.
func (b *prober) version2(ctx context.Context) {
	ctx, cancel := b.step(ctx)
	defer cancel()
	target := b.target
	target.RDMAVersion = client.RDMAVersion2
	c, err := client.Dial(ctx, target)
	switch {
	case errors.Is(err, rdma.ErrVersion2):
		return
	case late(err):
		b.out.Notes = append(b.out.Notes, "The server does not answer a client that proposes RPC-over-RDMA version 2: clients have to use version 1.")
		return
	case err != nil:
		b.out.Notes = append(b.out.Notes, "Whether the server speaks RPC-over-RDMA version 2 could not be found out: "+err.Error())
		return
	}
	defer c.Close()
	b.out.RPCRDMA.Versions = append(b.out.RPCRDMA.Versions, 2)
	// The server's properties come before its reply. Which reply that is does not matter.
	_ = c.Null(ctx, nfs3wire.Program, b.version())
	if i, ok := c.Info(); ok {
		p := i.Properties
		b.out.RPCRDMA.Version2 = &RPCRDMA2{
			Send: p.SendSize, Receive: p.ReceiveSize, Segment: p.SegmentSize, Segments: p.Segments, Permitted: i.Granted,
		}
	}
}

// print writes the properties. 2^32-1 is how a peer says that it has no limit.
func (r *RPCRDMA2) print(line func(what, format string, args ...any)) {
	limits := []string{}
	limit := func(n uint32, format string) {
		if n != noLimit {
			limits = append(limits, fmt.Sprintf(format, n))
		}
	}
	limit(r.Segments, "%d segments in a call")
	limit(r.Segment, "%d bytes in a segment")
	chunks := "without limits"
	switch {
	case r.Segments == 0 || r.Segment == 0:
		chunks = "none"
	case len(limits) > 0:
		chunks = "up to " + strings.Join(limits, ", ")
	}
	line("version 2", "messages of up to %d bytes received, %d sent; %d permitted at first", r.Receive, r.Send, r.Permitted)
	line("", "chunks: %s", chunks)
}

const noLimit = 1<<32 - 1
