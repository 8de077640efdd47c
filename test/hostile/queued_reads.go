package hostile

import (
	"context"
	"fmt"
)

// QueuedReads are peers that send many READs at once, and then read the replies. This is an
// ordinary load, unless the file system stalls.
//
// Each peer costs the daemon the memory for the results of the READs that it executes, and threads
// if the file system stalls.
type QueuedReads struct {
	Peers, Calls int
	Size         uint32
	// Handles are handles of files. Peer i reads file number i, modulo the number of files.
	Handles [][]byte
	// RDMA is true if the peers use RDMA.
	RDMA bool
}

func (b QueuedReads) String() string {
	transport := "TCP"
	if b.RDMA {
		transport = "RDMA"
	}
	return fmt.Sprintf("%d %s connections with %d READs of %d bytes under way", b.Peers, transport, b.Calls, b.Size)
}

// Start implements Behaviour.
func (b QueuedReads) Start(ctx context.Context, target Target) *Attack {
	p := b.tcp
	if b.RDMA {
		p = b.rdma
	}
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		return p(ctx, target, i, b.Handles[i%len(b.Handles)], stands)
	})
}

// offset returns the offset of READ number n, within a file of victimSize bytes.
func (b QueuedReads) offset(n int) uint64 { return uint64(n) * uint64(b.Size) % victimSize }

func (b QueuedReads) tcp(ctx context.Context, target Target, i int, handle []byte, stands func()) error {
	c, err := dial(ctx, target.Source(i), target.TCP, 0)
	if err != nil {
		return err
	}
	defer tie(ctx, c)()
	err = pour(c, b.Calls, func(n int) []byte { return record(readCall(uint32(n), handle, b.offset(n), b.Size)) }, stands)
	if err != nil {
		return err
	}
	return hold(c)
}

func (b QueuedReads) rdma(ctx context.Context, target Target, i int, handle []byte, stands func()) error {
	p, end, err := known(ctx, target, i)
	if err != nil {
		return err
	}
	defer end()
	// With a call for a file the peer proves to be a client, and gets all credits.
	if _, err := p.conn.Write(p.message(rdmaMessage(chunks{}, getattrCall(1, handle)))); err != nil {
		return err
	}
	if err := p.reply(); err != nil {
		return err
	}
	err = pour(p.conn, min(b.Calls, credits), func(n int) []byte {
		c := chunks{write: segment{handle: uint32(2 + n), length: b.Size}}
		return p.message(rdmaMessage(c, readCall(uint32(2+n), handle, b.offset(n), b.Size)))
	}, stands)
	if err != nil {
		return err
	}
	return hold(p.conn)
}
