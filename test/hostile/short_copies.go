package hostile

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// ShortCopies are clients of NFSv4.2, each with one session, that make the daemon copy 4 KiB from
// one file to another, over and over. Each compound has 31 COPYs, and each slot has a compound
// under way.
//
// Each peer costs the daemon goroutines of the executor, and disk time.
type ShortCopies struct {
	Peers, Slots int
	From, To     []byte
	// If Refused is true, each COPY is from a file to itself, which the daemon refuses (RFC 7862
	// §15.2.3).
	Refused bool
}

func (b ShortCopies) String() string {
	text := fmt.Sprintf("%d TCP connections with %d compounds of 31 COPYs under way", b.Peers, b.Slots)
	if b.Refused {
		text += ", which are refused"
	}
	return text
}

// Start implements Behaviour.
func (b ShortCopies) Start(ctx context.Context, target Target) *Attack {
	const copies, size = 31, 4 * kib
	from, want := b.From, wire.NFSStat4(wire.NFS4OK)
	if b.Refused {
		from, want = b.To, wire.NFS4ErrInvalid
	}
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, "tcp", i)
		if err != nil {
			return err
		}
		defer end()
		first := &client4{minor: 2, link: l}
		c, err := first.openClient(fmt.Appendf(nil, "copies %d", lives.Add(1)), b.To, uint32(b.Slots))
		if err != nil {
			return err
		}
		sequences := make([]uint32, min(uint32(b.Slots), c.slots))
		sequences[0] = c.next - 1
		put := func(slot uint32) error {
			sequences[slot]++
			ops := []op4{c.sequence(slot, sequences[slot], true), putFH(from), {number: wire.OpSaveFH}, putFH(b.To)}
			for k := range uint64(copies) {
				ops = append(ops, op4{wire.OpCopy, &wire.Copy4Args{
					DstStateid: c.open, SrcOffset: k * size, DstOffset: mib + k*size, Count: size, Consecutive: true, Synchronous: true,
				}})
			}
			return c.put(compound(slot, c.minor, ops, 0, nil))
		}
		for slot := range sequences {
			if err := put(uint32(slot)); err != nil {
				return err
			}
		}
		stands()
		for {
			m, err := c.await()
			if err == nil {
				err = ended(m, want)
			}
			if err == nil {
				err = put(be.Uint32(m))
			}
			if err != nil {
				return err
			}
		}
	})
}

// ended returns an error unless m is the reply to a compound that ended with the status want.
func ended(m []byte, want wire.NFSStat4) error {
	d := xdr.NewDecoder(m)
	d.Skip(6 * 4) // XID, reply, accepted, verifier, success
	status := wire.NFSStat4(d.Uint32())
	if d.Err() != nil {
		return d.Err()
	}
	if status != want {
		return status4(status)
	}
	return nil
}
