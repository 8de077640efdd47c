package hostile

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Floods are RDMA peers that send without a pause. They send NULL calls within their credits, one
// byte in each FPDU, with 1,000 empty RDMA Writes before each call, and read the replies. If Mute
// is true, they send only empty RDMA Writes.
//
// Each peer costs the daemon a receive ring and processor time.
type Floods struct {
	Peers int
	Mute  bool
}

func (b Floods) String() string {
	what := "calls in pieces of a byte"
	if b.Mute {
		what = "empty RDMA Writes"
	}
	return fmt.Sprintf("%d RDMA connections that send %s all the time", b.Peers, what)
}

// Start implements Behaviour.
func (b Floods) Start(ctx context.Context, target Target) *Attack {
	const (
		empty    = 1000 // empty RDMA Writes before each call
		together = 16   // calls under way at a time
	)
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		p, end, err := known(ctx, target, i)
		if err != nil {
			return err
		}
		defer end()
		stands()
		writes := bytes.Repeat(p.fpdu(rawpeer.Ready()), empty)
		for b.Mute {
			if _, err := p.conn.Write(writes); err != nil {
				return err
			}
		}
		called := make(chan struct{}, together)
		go func() {
			for p.reply() == nil {
				<-called
			}
			end()
		}()
		for xid := uint32(2); ; xid++ {
			select {
			case called <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			if _, err := p.conn.Write(append(writes[:len(writes):len(writes)], p.crumbs(rdmaMessage(chunks{}, paddedNull(xid)))...)); err != nil {
				return err
			}
		}
	})
}

// crumbs returns the FPDUs of a Send message with the content m, one byte in each.
func (p *rdmaPeer) crumbs(m []byte) (b []byte) {
	p.msn++
	for i := range m {
		b = append(b, p.fpdu(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: i == len(m)-1, MSN: p.msn, Offset: uint32(i)}, m[i:i+1]))...)
	}
	return b
}

// paddedNull returns a NULL call with a credential of 400 bytes, the longest that RFC 5531 §8.2
// permits.
func paddedNull(xid uint32) []byte {
	c := nullCall(xid)
	head, rest := c[:24], c[32:] // head: XID, type, RPC version, program, program version, procedure; rest: verifier
	b := append([]byte(nil), head...)
	b = be.AppendUint32(b, 0)
	return append(opaque(b, make([]byte, 400)), rest...)
}
