package main

// rpcMutants break the rules of docs/conformance-rpcrdma-v1.md that package rpc and the packages in
// its directory implement.
var rpcMutants = []mutant{
	{"V1-94: what is placed is not judged", "rpc", "Server.consultProgram",
		"case len(j.placed) > 0 && out != SystemErr:", "case len(j.placed) > 1<<20:", "rpc", "TestPlacedArguments"},
	{"V1-98: the procedure does not bound what is placed", "rpc", "Server.judge",
		"placed > row.MaxArgs || wraps {", "placed < 0 || wraps {", "rpc", "TestPlacedArguments"},
	{"V1-104: protected results are placed", "rpc", "callState.planned",
		"p.Placement = !o.Wraps", "p.Placement = true", "transport/rdma", "TestNoPlacementUnderProtection"},
	{"V1-104, V1-106: Read chunks of protected calls are read", "rpc", "Server.judge",
		"placed > row.MaxArgs || wraps {", "placed > row.MaxArgs {", "transport/rdma", "TestNoPlacementUnderProtection"},
	{"V1-109: a program serves every version", "rpc", "callState.find",
		"stat = AcceptProgMismatch", "stat = AcceptProgUnavail", "rpc", "TestCallsThatAreNotExecuted"},
	{"V1-28: an item that is not eligible comes from a chunk", "rpc/xdr", "Decoder.Opaque",
		"return d.FixedOpaque(d.length(limit))", "return d.EligibleOpaque(limit)", "rpc/xdr", "TestExcisedItemNotEligible"},
	{"V1-34: padding stays in the stream", "rpc/xdr", "Decoder.takeExcised",
		"d.shift += n + Pad(n)", "d.shift += n", "rpc/xdr", "TestExcisedItems"},
	{"V1-41: any length of padding", "rpc/xdr", "Decoder.takeExcised",
		"if len(data) != n && len(data) != n+Pad(n) {",
		"if len(data) < n || len(data) > n+Pad(n) {",
		"rpc/xdr", "TestExcisedItems"},
	{"V1-97: an eligible result inline though its chunk was free", "rpc/xdr", "Decoder.takeNext",
		`d.err = ErrNotPlaced
		return nil`,
		"return d.FixedOpaque(n)",
		"rpc/xdr", "TestPlaces"},
	{"V1-96: results may be left in chunks", "rpc/xdr", "Decoder.leftOver",
		"if !d.inOrder || len(e.Data) > 0 {", "if !d.inOrder || len(e.Data) > 1<<30 {", "rpc/xdr", "TestPlaces"},
}
