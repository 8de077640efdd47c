package rpctest

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Binding is the upper-layer binding of the test program.
var Binding = rpc.Binding{Procedures: []rpc.Procedure{
	NULL: {Name: "NULL"},
	ECHO: {Name: "ECHO", MaxArgs: 4 + MaxEcho, MaxResults: 4 + MaxEcho, Walk: func(args *xdr.Decoder, s *rpc.Shape) {
		s.Words = 4 + padded(min(args.Uint32(), MaxEcho))
	}},
	PUT: {Name: "PUT", Once: true, MaxArgs: 4 + 256 + 4 + MaxData, MaxResults: 8,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			args.Opaque(255)
			s.Item(args)
		}},
	GET: {Name: "GET", MaxArgs: 4, MaxResults: 4, Walk: func(args *xdr.Decoder, s *rpc.Shape) {
		s.Payload = size(args.Uint32())
	}},
	BUMP:  {Name: "BUMP", Once: true, MaxArgs: 4 + 64, MaxResults: 8},
	STALL: {Name: "STALL", MaxArgs: 4, MaxResults: 4},
	PAIR: {Name: "PAIR", MaxArgs: 12, Walk: func(args *xdr.Decoder, s *rpc.Shape) {
		first, second, n := args.Bool(), args.Bool(), size(args.Uint32())
		s.Words = 8
		for _, there := range [...]bool{first, second} {
			if there {
				s.Words += 4
				s.Payload += n
			}
		}
	}},
	LATER: {Name: "LATER", MaxArgs: 4, MaxResults: 4},
	WIDE:  {Name: "WIDE", Once: true, MaxArgs: 4, MaxResults: 4 + MaxWide},
	FAIL:  {Name: "FAIL", MaxArgs: 8, MaxResults: 8},
	SPILL: {Name: "SPILL", MaxArgs: 4, MaxResults: 16},
	HOLD:  {Name: "HOLD", Once: true, MaxArgs: 4, MaxResults: 8},
	FETCH: {Name: "FETCH", Once: true, MaxArgs: 4, MaxResults: 8, Walk: func(args *xdr.Decoder, s *rpc.Shape) {
		s.Payload = size(args.Uint32())
	}},
	SAME: {Name: "SAME", MaxArgs: 4, MaxResults: 4},
	STORE: {Name: "STORE", Once: true, MaxArgs: 4 + 4 + MaxData, MaxResults: 8,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			args.Uint32()
			s.Item(args)
		}},
	CRASH:    {Name: "CRASH", MaxArgs: 4, MaxResults: 4, Walk: func(_ *xdr.Decoder, s *rpc.Shape) { s.Payload = crashPayload }},
	COMPOUND: {Name: "COMPOUND", MaxArgs: MaxCompound, MaxResults: MaxCompound, Walk: walkCompound},
}}

// size returns the size of the payload for a call that requests n bytes: n, or 0 if n is larger
// than MaxData, because the program then replies GARBAGE_ARGS.
func size(n uint32) int {
	if n > MaxData {
		return 0
	}
	return int(n)
}

// crashPayload is the size of the payload that CRASH writes before it panics, in bytes.
const crashPayload = 100

func padded(n uint32) int { return int(n) + xdr.Pad(int(n)) }
