package main

// rdmaMutants are those of transport/rdma.
var rdmaMutants = []mutant{
	{"V1-9, V1-10: memory stays exposed when its call ends", "transport/rdma/requester.go",
		`	for _, r := range e.regions {
		if err := r.Deregister(); err != nil {
			failed = err`,
		`	for _, r := range e.regions[:len(e.regions)/2] {
		if err := r.Deregister(); err != nil {
			failed = err`,
		"transport/rdma", "TestCancelFences TestExposureIsShort"},
	{"V1-92: the call ends though its memory could not be fenced", "transport/rdma/requester.go",
		`	if failed != nil {
		q.mu.Lock()`,
		`	if failed != nil && q.noPlacement {
		q.mu.Lock()`,
		"transport/rdma", "TestUnfencedMemoryEndsTheConnection"},
	{"V1-12: one Read more than the peer allows", "transport/rdma/read_queue.go",
		"q.outstanding < q.depth",
		"q.outstanding <= q.depth",
		"transport/rdma", "TestReadDepthIsKept"},
	{"V1-13: a grant is forgotten", "transport/rdma/credits.go",
		"min(c.requested, c.granted)",
		"c.requested",
		"transport/rdma", "TestCreditsAtTheStart"},
	{"V1-14: an error grants nothing", "transport/rdma/reply.go",
		"Version: c.version, Credits: c.responder.granted.Load()}",
		"Version: c.version}",
		"transport/rdma", "TestCreditsAreGranted"},
	{"V1-15: more calls than were asked for", "transport/rdma/credits.go",
		"min(c.requested, c.granted)",
		"c.granted",
		"transport/rdma", "TestCreditsAtTheStart"},
	{"V1-16: the receive is promised after the reply", "transport/rdma/reply.go",
		`	k.device.Provide(1, k.receiveSize)
	if !alone || !k.device.SendShort(local, invalidate) {
		return false
	}
	if c.inRun {
		k.inRun += uint64(size)
	} else {
		k.moved.Add(uint64(size))
	}
	c.finish()
	return true
}

// postChain posts work.
func (c *call) postChain() {
	c.leaveRun()
	c.chain.Work = c.work
	c.responder.k.post(&c.chain)
`,
		`	if !alone || !k.device.SendShort(local, invalidate) {
		return false
	}
	if c.inRun {
		k.inRun += uint64(size)
	} else {
		k.moved.Add(uint64(size))
	}
	c.finish()
	k.device.Provide(1, k.receiveSize)
	return true
}

// postChain posts work.
func (c *call) postChain() {
	c.leaveRun()
	c.chain.Work = c.work
	k := c.responder.k
	k.post(&c.chain)
	k.device.Provide(1, k.receiveSize)
`,
		"transport/rdma", "TestCreditsAreGranted"},
	{"V1-19: a new connection has all credits", "transport/rdma/credits.go",
		"granted: 1}",
		"granted: uint32(requested)}",
		"transport/rdma", "TestCreditsAtTheStart"},
	{"V1-24: a call of exactly the threshold does not go inline", "transport/rdma/encode.go",
		`	if header+e.left > q.k.sendLimit {
		if q.shortOnly`,
		`	if header+e.left >= q.k.sendLimit {
		if q.shortOnly`,
		"transport/rdma", "TestCallForms"},
	{"V1-24: a reply of exactly the threshold does not go inline", "transport/rdma/reply.go",
		"inline := header+left <= k.sendLimit",
		"inline := header+left < k.sendLimit",
		"transport/rdma", "TestReplyThreshold"},
	{"V1-28: items are reduced that are not eligible", "transport/rdma/encode.go",
		"if p.Eligible && len(p.Data) > 0 {",
		"if len(p.Data) > 0 {",
		"transport/rdma", "TestPositions"},
	{"V1-36: positions do not count padding", "transport/rdma/encode.go",
		`		}
		shift += padded(len(p.Data))`,
		`		}
		shift += len(p.Data)`,
		"transport/rdma", "TestPositions"},
	{"V1-37: positions are multiples of two", "transport/rdma/arrived.go",
		"if s.Position%4 != 0 {",
		"if s.Position%2 != 0 {",
		"transport/rdma", "TestJudgedWithoutABinding"},
	{"V1-39: chunks are not put in order", "transport/rdma/arrived.go",
		"\tif !sorted {",
		"\tif false {",
		"transport/rdma", "TestSeveralReadChunks"},
	{"V1-43: a failed Read ends its call while others are under way", "transport/rdma/bring.go",
		`	if c.unread.Add(-1) > 0 {
		return`,
		`	if c.unread.Add(-1) > 0 && ok {
		return`,
		"transport/rdma", "TestAFailedReadWaitsForTheOthers"},
	{"V1-50: a small result stays inline", "transport/rdma/reply.go",
		"if p.Eligible && c.plan.Placement && l.Len() > 0 {",
		"if p.Eligible && c.plan.Placement && l.Len() > 0 && len(p.Data) > 1 {",
		"transport/rdma", "TestWriteChunkGetsNoRoundup"},
	{"V1-52: a chunk comes back with the lengths that were offered", "transport/rdma/wire/write_list.go",
		"length := min(used, uint64(binary.BigEndian.Uint32(b[at:])))",
		"length := uint64(binary.BigEndian.Uint32(b[at:]))",
		"transport/rdma", "TestWriteChunkGetsNoRoundup"},
	{"V1-54: padding is written", "transport/rdma/reply.go",
		`		data := payloads[next].Data
		c.resp`,
		`		data := payloads[next].Data
		data = append(data[:len(data):len(data)], padding[:padded(len(data))-len(data)]...)
		c.resp`,
		"transport/rdma", "TestWriteChunkGetsNoRoundup"},
	{"V1-60: an empty chunk is not skipped", "transport/rdma/reply.go",
		`			if chunk.Len() > 0 {
				if used =`,
		`			if true {
				if used =`,
		"transport/rdma", "TestWriteList"},
	{"A-6: a result one byte too long is written", "transport/rdma/reply.go",
		"used > chunk.Bytes() {",
		"used > chunk.Bytes()+1 {",
		"transport/rdma", "TestWriteChunkTooSmall"},
	{"V1-63: no Reply chunk for a reply one byte too long", "transport/rdma/encode.go",
		"if e.headerSize(false)+most <= q.k.receiveLimit {",
		"if e.headerSize(false)+most <= q.k.receiveLimit+1 {",
		"transport/rdma", "TestOffers"},
	{"V1-64: a Reply chunk for a reply that fits", "transport/rdma/encode.go",
		"if e.headerSize(false)+most <= q.k.receiveLimit {",
		"if e.headerSize(false)+most < q.k.receiveLimit {",
		"transport/rdma", "TestOffers"},
	{"V1-66: an unused Reply chunk does not come back", "transport/rdma/wire/reply_chunk.go",
		`	if !c.Present {
		binary.BigEndian.PutUint32(b, 0)`,
		`	if !c.Present || used == 0 {
		binary.BigEndian.PutUint32(b, 0)`,
		"transport/rdma", "TestReplyThreshold TestErrorRepliesReturnTheLists"},
	{"V1-67: the verifier of the reply is forgotten", "transport/rdma/encode.go",
		"const maxReplyHeader = rpc.ReplyHeader + rpc.MaxAuthBytes",
		"const maxReplyHeader = rpc.ReplyHeader",
		"transport/rdma", "TestOffers"},
	{"V1-67: half a verifier is reckoned with", "transport/rdma/encode.go",
		"const maxReplyHeader = rpc.ReplyHeader + rpc.MaxAuthBytes",
		"const maxReplyHeader = rpc.ReplyHeader + rpc.MaxAuthBytes/2",
		"transport/rdma", "TestOffers"},
	{"V1-70, V1-88: the XID of the Payload is not compared", "transport/rdma/arrived.go",
		"binary.BigEndian.Uint32(message) != c.xid",
		"binary.BigEndian.Uint32(message) == ^c.xid",
		"transport/rdma", "TestJudgedWithoutABinding"},
	{"V1-74: an RDMA_ERROR of another version is answered", "transport/rdma/frame.go",
		"\tcase p.Proc == wire.ProcError:",
		"\tcase p.Proc == wire.ProcError && p.Version == wire.Version1:",
		"transport/rdma", "TestErrorsFromPeersAreDropped"},
	{"V1-76: RDMA_MSGP is dropped", "transport/rdma/frame.go",
		"\tcase wire.ProcDone:",
		"\tcase wire.ProcDone, wire.ProcMsgP:",
		"transport/rdma", "TestBadHeaders"},
	{"V1-79, L-3: RDMA_DONE is answered", "transport/rdma/fault.go",
		`{"rdma_done", answerDrop,`,
		`{"rdma_done", answerChunk,`,
		"transport/rdma", "TestDoneIsDropped"},
	{"V1-79: the receive of a dropped message is not promised again", "transport/rdma/fault.go",
		`	k.device.Provide(1, k.receiveSize)
	k.note(f, answerDrop, xid)`,
		"\tk.note(f, answerDrop, xid)",
		"transport/rdma", "TestDoneIsDropped"},
	{"V1-80: 24 bytes are a header", "transport/rdma/wire/header.go",
		"const MinHeader = PrefixSize + 12",
		"const MinHeader = PrefixSize + 8",
		"transport/rdma", "TestShortMessagesAreDropped"},
	{"V1-80: a header of 28 bytes is too short", "transport/rdma/wire/header.go",
		"const MinHeader = PrefixSize + 12",
		"const MinHeader = PrefixSize + 16",
		"transport/rdma", "TestTruncatedHeaders"},
	{"V1-82: a reply to another call is taken", "transport/rdma/answer.go",
		`		binary.BigEndian.Uint32(e.stream) != e.xid ||
`,
		"",
		"transport/rdma", "TestBadRepliesAreDropped"},
	{"V1-82, L-6: a reply with a Read list is taken", "transport/rdma/answer.go",
		"if h.Reads.Len() > 0 {",
		"if h.Reads.Len() > 1<<20 {",
		"transport/rdma", "TestBadRepliesAreDropped"},
	{"V1-83: an error has version 1", "transport/rdma/reply.go",
		"p := wire.Prefix{XID: c.xid, Version: c.version, Cred",
		"p := wire.Prefix{XID: c.xid, Version: wire.Version1, Cred",
		"transport/rdma", "TestVersionMismatch"},
	{"V1-86: an unknown error has a meaning", "transport/rdma/wire/rdma_error.go",
		`		return e, true
	}
	return ErrorBody{}, false`,
		`		return e, true
	}
	return e, true`,
		"transport/rdma/wire", "TestErrorVectors"},
	{"V1-87: versions 1 to 2 are served", "transport/rdma/reply.go",
		"High: wire.Version1}",
		"High: 2}",
		"transport/rdma", "TestVersionMismatch"},
	{"V1-88: segments may wrap", "transport/rdma/wire/segment.go",
		"return s.Length > 0 && s.Offset+uint64(s.Length-1) < s.Offset",
		"return false",
		"transport/rdma", "TestBadHeaders"},
	{"V1-90: what broke a connection is tried again", "transport/rdma/arrived.go",
		"\tcase s.failed.take(s.peer, h.XID):",
		"\tcase s.failed == nil:",
		"transport/rdma", "TestRetryOfWhatBrokeTheConnection"},
	{"A-12: another peer is refused for it", "transport/rdma/failed_xid.go",
		"its := e.peer == peer && e.xid == xid",
		"its := e.xid == xid",
		"transport/rdma", "TestFailedXIDsAreForgotten"},
	{"A-12: remembered for ever", "transport/rdma/failed_xid.go",
		"now.Sub(e.at) > failedXIDsLife",
		"now.Before(e.at)",
		"transport/rdma", "TestFailedXIDsAreForgotten"},
	{"V1-98: no bound on what a call moves", "transport/rdma/arrived.go",
		"if int64(s.Length) > int64(c.responder.maxCall-total) {",
		"if s.Length == 0 && total < 0 {",
		"transport/rdma", "TestBadHeaders"},
	{"A-8: RDMA_MSG with a Position-Zero chunk", "transport/rdma/arrived.go",
		"\tcase h.Proc == wire.ProcMsg && c.zeroSegments > 0:",
		"\tcase h.Proc == wire.ProcMsg && c.zeroSegments > 1:",
		"transport/rdma", "TestBadHeaders"},
	{"V1-104: placement without leave", "transport/rdma/reply.go",
		"if p.Eligible && c.plan.Placement && l.Len() > 0 {",
		"if p.Eligible && l.Len() > 0 {",
		"transport/rdma", "TestNoPlacementWithoutPlan"},
	{"V1-113: reserved bits mean remote invalidation", "transport/rdma/wire/private_data.go",
		"b[5]&privateR != 0",
		"b[5] != 0",
		"transport/rdma/wire", "TestPrivateDataFromPeers"},
	{"V1-112: sizes are rounded up", "transport/rdma/wire/private_data.go",
		"return byte(min(max(size, DefaultInline), MaxInline)/1024 - 1)",
		"return byte((min(max(size, DefaultInline), MaxInline)+1023)/1024 - 1)",
		"transport/rdma/wire", "TestPrivateDataSizesAreRoundedDown"},
	{"V1-118: the mark is looked for at words", "transport/rdma/wire/private_data.go",
		"b = b[1:] {",
		"b = b[4:] {",
		"transport/rdma/wire", "TestPrivateDataFromPeers"},
	{"V1-114: a tag is guessed among several", "transport/rdma/wire/header.go",
		"if found && s.Handle != handle {",
		"if found && s.Handle == 0 {",
		"transport/rdma/wire", "TestSoleHandle"},
	{"V1-114: the peer may invalidate tags of other calls", "transport/rdma/answer.go",
		"case r.Invalidated != 0 && !e.exposes(r.Invalidated):",
		"case r.Invalidated == ^uint32(0):",
		"transport/rdma", "TestRemoteInvalidationByThePeer"},
	{"V1-115: the peer is not asked whether it supports invalidation", "transport/rdma/connection.go",
		"own.RemoteInvalidation && peer.RemoteInvalidation &&",
		"own.RemoteInvalidation &&",
		"transport/rdma", "TestRemoteInvalidation"},
	{"V1-122: the peer alone says how much is sent", "transport/rdma/connection.go",
		"k.sendLimit = min(own.SendSize, peer.ReceiveSize)",
		"k.sendLimit = peer.ReceiveSize",
		"transport/rdma", "TestThresholdMatrix"},
	{"L-5: a grant of 0 counts as 0", "transport/rdma/credits.go",
		"max(1, min(c.requested, c.granted))",
		"min(c.requested, c.granted)",
		"transport/rdma", "TestGrantOfZero"},
	{"A-5: an error that grants nothing takes the grant away", "transport/rdma/credits.go",
		"if granted > 0 || !isError {",
		"if granted > 0 || isError {",
		"transport/rdma", "TestErrorsCarryGrants"},
	{"L-7: padding in a returned chunk is a fault", "transport/rdma/answer.go",
		"if !echoes(c, offered, 3) {",
		"if !echoes(c, offered, 0) {",
		"transport/rdma", "TestPlacedResults"},
	{"a chunk with a gap is taken", "transport/rdma/answer.go",
		"s.Offset != o.Offset || !full && s.Length > 0 {",
		"s.Offset != o.Offset || !full && s.Length == 1<<31 {",
		"transport/rdma", "TestSegmentsAreFilledInOrder"},
	{"V1-81: a reply whose header does not fit is begun", "transport/rdma/arrived.go",
		"\tcase h.ReplySize() > s.k.sendLimit:",
		"\tcase h.ReplySize() > 2*s.k.sendLimit:",
		"transport/rdma", "TestBadHeaders"},
	{"a call in place counts for nothing", "transport/rdma/run.go",
		"\t\ts.run.entered = n > 0",
		"\t\tif s.run.entered = n > 0; s.run.entered {\n\t\t\ts.k.calls.Add(-1)\n\t\t}",
		"transport/rdma", "TestCallsInPlaceAreCounted"},
	{"a record that served in place is admitted already", "transport/rdma/call.go",
		"c.admitted, c.words, c.results = false, 0, 0",
		"c.words, c.results = 0, 0",
		"transport/rdma", "TestRecordOfACallInPlace"},
}
