package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// raw is the arguments of an operation as a list of 32-bit words, valid or not.
type raw []uint32

// Encode writes the words.
func (r raw) Encode(w *xdr.Writer) {
	for _, word := range r {
		w.Uint32(word)
	}
}

// Extremes are clients of NFSv4.2 that send compounds, one after the other, with the largest
// arguments that can be encoded. Peer i sends the compounds with the numbers i, i+Peers, i+2*Peers
// and so on, modulo the number of compounds. It stands when it has sent len(Compounds)/Peers
// compounds.
//
// Each peer costs the daemon the execution of one call at a time.
type Extremes struct {
	Transport string
	Peers     int
	Compounds [][]op4
}

func (b Extremes) String() string {
	return fmt.Sprintf("%d NFSv4.2 clients on %s that ask for %d extremes", b.Peers, b.Transport, len(b.Compounds))
}

// Extreme returns compounds about four files: one with many holes, one of 8 EiB, one to write to,
// and a directory.
func Extreme(holes, sparse, victim, dir []byte) (all [][]op4) {
	add := func(ops ...op4) { all = append(all, ops) }
	const top = 1<<64 - 1
	for _, offset := range []uint64{0, 1 << 20, 1<<63 - 4096, 1<<63 - 1, 1 << 63, top} {
		for _, file := range [][]byte{holes, sparse} {
			add(putFH(file), op4{wire.OpReadPlus, &wire.ReadPlus4Args{Offset: offset, Count: 1<<32 - 1}})
			add(putFH(file), op4{wire.OpRead, &wire.Read4Args{Offset: offset, Count: 1<<32 - 1}})
			add(putFH(file), op4{wire.OpSeek, &wire.Seek4Args{Offset: offset, What: wire.NFS4ContentData}}, op4{wire.OpSeek, &wire.Seek4Args{Offset: offset, What: wire.NFS4ContentHole}})
		}
		for _, length := range []uint64{0, 1 << 63, top} {
			add(putFH(victim), op4{wire.OpAllocate, &wire.Allocate4Args{Offset: max(offset, 1<<63-4096), Length: length}})
			add(putFH(victim), op4{wire.OpDeallocate, &wire.Deallocate4Args{Offset: offset, Length: length}})
			add(putFH(sparse), op4{number: wire.OpSaveFH}, putFH(victim), op4{wire.OpClone, &wire.Clone4Args{SrcOffset: offset, DstOffset: offset, Count: length}})
		}
	}
	add(putFH(sparse), op4{number: wire.OpSaveFH}, putFH(victim), op4{wire.OpCopy, &wire.Copy4Args{Synchronous: true, Consecutive: true}})
	for _, n := range []uint32{0, 1, 1<<32 - 1} {
		for _, cookie := range []uint64{0, 1, 2, 3, 1 << 63, top} {
			add(putFH(dir), op4{wire.OpReaddir, &wire.Readdir4Args{Cookie: cookie, Dircount: n, Maxcount: n, AttrRequest: wire.Bits(1, 4, 20, 33)}})
		}
	}
	bitmap := raw{4000}
	for range 4000 {
		bitmap = append(bitmap, 1<<32-1)
	}
	add(putFH(victim), op4{wire.OpGetattr, bitmap})
	add(putFH(victim), op4{wire.OpGetattr, raw{1<<32 - 1, 1}})
	add(putFH(dir), op4{wire.OpLookup, raw{1<<32 - 1}})
	add(putFH(dir), op4{wire.OpLookup, &wire.Lookup4Args{Objname: []byte(strings.Repeat("\xff", 4000))}})
	add(times(100, putFH(dir), op4{wire.OpSecInfo, &wire.SecInfo4Args{Name: []byte("a name of some length 1")}})[:120]...)
	add(times(10_000, op4{number: wire.OpPutRootFH})...)
	add(times(100, op4{number: 4711})...)
	add(putFH(victim), op4{wire.OpSetXattr, &wire.SetXattr4Args{Key: []byte(strings.Repeat("k", 255)), Value: make([]byte, 64*kib)}})
	add(putFH(victim), op4{wire.OpListXattrs, &wire.ListXattrs4Args{Cookie: top, Maxcount: 1<<32 - 1}}, op4{wire.OpListXattrs, &wire.ListXattrs4Args{}})
	return all
}

// Start implements Behaviour.
func (b Extremes) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, b.Transport, i)
		if err != nil {
			return err
		}
		defer end()
		c := &client4{minor: 2, link: l}
		if err := c.start(fmt.Appendf(nil, "extreme %d", lives.Add(1)), 1); err != nil {
			return err
		}
		sequence := uint32(2)
		for n := i; ctx.Err() == nil; n += b.Peers {
			if n == i+len(b.Compounds)/b.Peers*b.Peers {
				stands()
			}
			ops := append([]op4{c.sequence(0, sequence, false)}, b.Compounds[n%len(b.Compounds)]...)
			if b.Transport == "rdma" && len(compound(0, 2, ops, 0, nil)) > 3*kib {
				continue // a longer call would need a chunk
			}
			d, err := c.send(ops, 0, nil)
			var refused refusal
			if err != nil && !errors.As(err, &refused) {
				return fmt.Errorf("%v: %w", ops[1].number, err)
			}
			if err == nil && firstStatus(d) == wire.NFS4OK {
				sequence++
			}
			wait(ctx, 5*time.Millisecond)
		}
		return nil
	})
}
