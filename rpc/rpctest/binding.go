package rpctest

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Binding is the toy program's upper-layer binding.
var Binding = rpc.Binding{Procedures: []rpc.Procedure{
	NULL: {Name: "NULL"},
	ECHO: {Name: "ECHO", MaxArgs: 4 + MaxEcho, Size: func(args xdr.Decoder) (int, int) {
		return 4 + padded(min(args.Uint32(), MaxEcho)), 0
	}},
	PUT: {Name: "PUT", Once: true, MaxArgs: 4 + 256 + 4 + MaxData, MaxResults: 8,
		Eligible: func(args xdr.Decoder, placed []rpc.Placed) bool {
			args.Opaque(255)
			count := args.Uint32()
			return args.Err() == nil && len(placed) == 1 && int(placed[0].Position) == args.Position() &&
				(placed[0].Length == count || int(placed[0].Length) == padded(count))
		},
		ArgsPrefix: func(args xdr.Decoder) int {
			from := args.Position()
			args.Opaque(255)
			args.Uint32()
			return args.Position() - from
		}},
	GET:   {Name: "GET", MaxArgs: 4, Size: func(args xdr.Decoder) (int, int) { return 4, size(args.Uint32()) }},
	BUMP:  {Name: "BUMP", Once: true, MaxArgs: 4 + 64, MaxResults: 8},
	STALL: {Name: "STALL", MaxArgs: 4, MaxResults: 4},
	PAIR: {Name: "PAIR", MaxArgs: 12, Size: func(args xdr.Decoder) (words, payload int) {
		first, second, n := args.Bool(), args.Bool(), size(args.Uint32())
		words = 8
		for _, there := range [...]bool{first, second} {
			if there {
				words += 4
				payload += n
			}
		}
		return words, payload
	}},
	LATER: {Name: "LATER", MaxArgs: 4, MaxResults: 4},
	WIDE:  {Name: "WIDE", Once: true, MaxArgs: 4, MaxResults: 4 + MaxWide},
	FAIL:  {Name: "FAIL", MaxArgs: 8, MaxResults: 8},
	SPILL: {Name: "SPILL", MaxArgs: 4, MaxResults: 16},
	HOLD:  {Name: "HOLD", Once: true, MaxArgs: 4, MaxResults: 8},
	FETCH: {Name: "FETCH", Once: true, MaxArgs: 4,
		Size: func(args xdr.Decoder) (int, int) { return 8, size(args.Uint32()) }},
	SAME: {Name: "SAME", MaxArgs: 4, MaxResults: 4},
}}

// size is the memory for a count from the wire: nothing where it is refused.
func size(n uint32) int {
	if n > MaxData {
		return 0
	}
	return int(n)
}

func padded(n uint32) int { return int(n) + xdr.Pad(int(n)) }
