package hostile

import (
	"context"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A listed is an RPC-over-RDMA message with lists of chunks of any shape (RFC 8166 §4.3).
type listed struct {
	reads  []readSegment
	writes [][]segment
	reply  []segment
	noMsg  bool
}

type readSegment struct {
	position uint32
	segment
}

// message returns the header, followed by the call. If noMsg is set, message returns only the
// header, as for a call that is in a Read chunk.
func (l listed) message(call []byte) []byte {
	b := append([]byte(nil), call[:4]...)
	proc := uint32(rdmaMsg)
	if l.noMsg {
		proc, call = rdmaNoMsg, nil
	}
	for _, word := range []uint32{rdmaVersion, credits, proc} {
		b = be.AppendUint32(b, word)
	}
	for _, r := range l.reads {
		b = be.AppendUint32(be.AppendUint32(b, 1), r.position)
		b = r.append(b)
	}
	b = be.AppendUint32(b, 0)
	for _, w := range l.writes {
		b = be.AppendUint32(be.AppendUint32(b, 1), uint32(len(w)))
		for _, s := range w {
			b = s.append(b)
		}
	}
	b = be.AppendUint32(b, 0)
	if l.reply == nil {
		b = be.AppendUint32(b, 0)
	} else {
		b = be.AppendUint32(be.AppendUint32(b, 1), uint32(len(l.reply)))
		for _, s := range l.reply {
			b = s.append(b)
		}
	}
	return append(b, call...)
}

// A Chunked is a compound with chunks that do not match its operations, which no correct client
// sends.
type Chunked struct {
	name  string
	lists listed
	ops   []op4
}

// chunk returns a chunk with one segment of n bytes. Chunks with the same handle refer to the same
// memory.
func chunk(handle, n uint32) []segment { return []segment{{handle: handle, length: n}} }

func times[T any](n int, v ...T) (all []T) {
	for range n {
		all = append(all, v...)
	}
	return all
}

// ChunkedCompounds returns compounds of minor version 0 about a file and a directory, with chunks
// that do not match them (see Chunked).
func ChunkedCompounds(file, dir []byte) []Chunked {
	read := func(n uint32) op4 { return op4{wire.OpRead, &wire.Read4Args{Count: n}} }
	put := putFH(file)
	list := op4{wire.OpReaddir, &wire.Readdir4Args{Dircount: mib, Maxcount: mib, AttrRequest: wire.Bits(1, 3, 4, 20, 33, 36, 37)}}
	write := op4{wire.OpWrite, &wire.Write4Args{Stable: wire.Unstable4, Data: xdr.Eligible{Data: make([]byte, 1000)}}}
	return []Chunked{
		{"two READs, one chunk", listed{writes: [][]segment{chunk(1, 64*kib)}}, []op4{put, read(64 * kib), read(64 * kib)}},
		{"two READs, three chunks", listed{writes: [][]segment{chunk(1, 64*kib), chunk(2, 64*kib), chunk(3, 64*kib)}}, []op4{put, read(64 * kib), read(64 * kib)}},
		{"chunks that are the same memory", listed{writes: [][]segment{chunk(1, 64*kib), chunk(1, 64*kib)}}, []op4{put, read(64 * kib), read(64 * kib)}},
		{"a chunk of no bytes, and one of no segments", listed{writes: [][]segment{chunk(1, 0), {}}}, []op4{put, read(64 * kib), read(4096)}},
		{"a chunk that is too small", listed{writes: [][]segment{chunk(1, 3)}}, []op4{put, read(64 * kib)}},
		{"a chunk that is beyond its memory", listed{writes: [][]segment{{{handle: 1, length: 1<<32 - 1, offset: 1<<64 - 2}}}}, []op4{put, read(mib)}},
		{"a chunk of 200 segments", listed{writes: [][]segment{times(200, segment{handle: 1, length: 5})}}, []op4{put, read(1000)}},
		{"64 chunks of 1 MiB", listed{writes: times(64, chunk(1, mib))}, append([]op4{put}, times(63, read(mib))...)},
		{"20 listings of 1 MiB in a Reply chunk", listed{reply: chunk(1, 1<<31)}, append([]op4{putFH(dir)}, times(20, list)...)},
		{"a Reply chunk of 4 bytes", listed{reply: chunk(1, 4)}, []op4{putFH(dir), list}},
		{"a Reply chunk of no segments", listed{reply: []segment{}}, []op4{putFH(dir), list}},
		{"chunks of both kinds", listed{writes: [][]segment{chunk(1, mib)}, reply: chunk(2, mib)}, []op4{put, read(mib), putFH(dir), list}},
		{"a chunk for READLINK and READ_PLUS", listed{writes: [][]segment{chunk(1, 4096), chunk(2, 4096)}}, []op4{put, {number: wire.OpReadlink}, {wire.OpReadPlus, &wire.ReadPlus4Args{Count: 4096}}}},
		{"a chunk for GETATTR", listed{writes: [][]segment{chunk(1, 4096)}}, []op4{put, getattr4(), getattr4()}},
		{"a WRITE with its data beside it, and a chunk in the middle", listed{reads: []readSegment{{60, segment{handle: 1, length: 1000}}}}, []op4{put, write}},
		{"a WRITE and a chunk behind the end", listed{reads: []readSegment{{1<<32 - 4, segment{handle: 1, length: 1000}}}}, []op4{put, write}},
		{"Read chunks out of order", listed{reads: []readSegment{{400, segment{handle: 1, length: 8}}, {100, segment{handle: 1, length: 8}}, {0, segment{handle: 1, length: 8}}}}, []op4{put, write}},
		{"a Long call that is never there", listed{noMsg: true, reads: []readSegment{{0, segment{handle: 1, length: 100 * kib}}, {64, segment{handle: 2, length: mib}}}}, []op4{put}},
		{"a Long call of no bytes", listed{noMsg: true, reads: []readSegment{{0, segment{handle: 1}}}}, []op4{put}},
		{"a Long call without a chunk", listed{noMsg: true}, []op4{put}},
	}
}

// ChunkedCalls are peers on RDMA that send compounds with chunks that do not match their
// operations, and read the replies.
//
// Each peer costs the daemon the execution of nine calls at a time.
type ChunkedCalls struct{ Calls []Chunked }

func (b ChunkedCalls) String() string {
	return fmt.Sprintf("%d RDMA clients that send compounds with chunks which do not go with them", len(b.Calls))
}

// Start implements Behaviour.
func (b ChunkedCalls) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, len(b.Calls), func(ctx context.Context, i int, stands func()) error {
		p, end, err := known(ctx, target, i)
		if err != nil {
			return err
		}
		defer end()
		// Nine calls are under way at a time. For each answer of the daemon, the peer sends the
		// next one.
		const most = 8
		for n := range uint32(1 << 20) {
			if n > most {
				if n == most+1 {
					stands()
				}
				if _, err := p.send(); err != nil {
					return fmt.Errorf("%s: %w", b.Calls[i].name, err)
				}
				wait(ctx, 10*time.Millisecond) // a pause, so that the peers do not use all processor time of the machine
			}
			m := b.Calls[i].lists.message(compound(n+2, 0, b.Calls[i].ops, 0, nil))
			if _, err := p.conn.Write(p.message(m)); err != nil {
				return fmt.Errorf("%s: %w", b.Calls[i].name, err)
			}
		}
		return nil
	})
}
