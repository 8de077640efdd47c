package hostile

import (
	"context"
	"fmt"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// ShortCopies are clients of NFSv4.2, each with one session, that have the daemon copy 4 KiB
// within a file, over and over: 31 COPYs a compound, and a compound under way in each slot.
//
// What each of them costs the daemon: goroutines of the executor, and the disk's time.
type ShortCopies struct {
	Peers, Slots int
	File         []byte
}

func (b ShortCopies) String() string {
	return fmt.Sprintf("%d TCP connections with %d compounds of 31 COPYs under way", b.Peers, b.Slots)
}

// Start implements Behaviour.
func (b ShortCopies) Start(ctx context.Context, target Target) *Attack {
	const copies, size = 31, 4 * kib
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, "tcp", i)
		if err != nil {
			return err
		}
		defer end()
		first := &client4{minor: 2, link: l}
		c, err := first.openClient(fmt.Appendf(nil, "copies %d", lives.Add(1)), b.File, uint32(b.Slots))
		if err != nil {
			return err
		}
		sequences := make([]uint32, min(uint32(b.Slots), c.slots))
		sequences[0] = c.next - 1
		put := func(slot uint32) error {
			sequences[slot]++
			ops := []op4{c.sequence(slot, sequences[slot], true), putFH(b.File), {number: wire.OpSaveFH}}
			for k := range uint64(copies) {
				ops = append(ops, op4{wire.OpCopy, &wire.Copy4Args{
					SrcStateid: c.open, DstStateid: c.open, SrcOffset: k * size, DstOffset: mib + k*size, Count: size, Consecutive: true, Synchronous: true,
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
				err = put(be.Uint32(m))
			}
			if err != nil {
				return err
			}
		}
	})
}
