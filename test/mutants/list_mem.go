package main

// memMutants are those of mem.
var memMutants = []mutant{
	{"a page too many", "mem/share.go",
		"return max(1, (int64(size)-1)/PageSize+1)",
		"return max(1, int64(size)/PageSize+1)",
		"mem", "TestGetGivesAlignedMemoryOfTheSizeAskedFor"},
	{"warm pages count as used", "mem/buddy.go",
		`		*w = e
		a.free += e.pages`,
		"\t\t*w = e",
		"mem", "TestBuddyAgainstModel"},
	{"blocks are not joined", "mem/buddy.go",
		`	for k < maxOrders-1 {
		other`,
		`	for k < 7 {
		other`,
		"mem", "TestHeadWaitsForContiguousBlock"},
	{"a trickle is progress", "mem/pressure.go",
		"return float64(min(held/8, 1<<20)) }",
		"return 0 }",
		"mem", "TestTrickleIsNoProgress"},
	{"a peer is ended for what a file system keeps", "mem/pressure.go",
		"if again && waits && moved",
		"if again && (waits || true) && moved",
		"mem", "TestWhoIsNotEnded"},
	{"clients that pinned memory have their turn like others", "mem/line.go",
		"for !t.client.blamed && at != nil && at.client.blamed {",
		"for at != nil && t.next == t {",
		"mem", "TestBlame"},
	{"a client that pinned memory has as much time again", "mem/client.go",
		"\tif c.blamed {\n\t\treturn blamedGrace\n\t}\n",
		"",
		"mem", "TestBlame"},
	{"a connection is safe beside others of its address", "mem/pressure.go",
		"\tif p.wants > own {\n\t\treturn true\n\t}\n",
		"",
		"mem", "TestStuckBesideItsOwnClient"},
	{"a ledger keeps what is left over", "mem/ledger.go",
		"(is != 0 || told == 0)",
		"true",
		"mem", "TestLedger"},
}
