package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
)

// elsewhere is the device of the benches and scripts whose tests name no device. If it is nil, each
// of them has its own device in memory.
var elsewhere func(testing.TB) rdmacm.Provider

// overBoth lists the tests that also run over the software RNIC. For every other rule
// docs/conformance-rpcrdma-v1.md says why its test needs the device in memory.
var overBoth = []struct {
	name string
	test func(*testing.T)
}{
	{"TestBadHeaders", TestBadHeaders},
	{"TestBadLongCalls", TestBadLongCalls},
	{"TestBeyondTheGrant", TestBeyondTheGrant},
	{"TestBothDirections", TestBothDirections},
	{"TestBytesBehindNoMsgAreIgnored", TestBytesBehindNoMsgAreIgnored},
	{"TestCallForms", TestCallForms},
	{"TestCallsGoOutInOrder", TestCallsGoOutInOrder},
	{"TestDefaultThreshold", TestDefaultThreshold},
	{"TestDirectionsAreToldApart", TestDirectionsAreToldApart},
	{"TestDoneIsDropped", TestDoneIsDropped},
	{"TestErrorRepliesReturnTheLists", TestErrorRepliesReturnTheLists},
	{"TestErrorsCarryGrants", TestErrorsCarryGrants},
	{"TestErrorsFromPeersAreDropped", TestErrorsFromPeersAreDropped},
	{"TestGarbageArguments", TestGarbageArguments},
	{"TestGetByWriteChunk", TestGetByWriteChunk},
	{"TestHandlesAreUnpredictable", TestHandlesAreUnpredictable},
	{"TestJudgedWithoutABinding", TestJudgedWithoutABinding},
	{"TestLargeCredentials", TestLargeCredentials},
	{"TestLongCalls", TestLongCalls},
	{"TestLongReply", TestLongReply},
	{"TestLongSegments", TestLongSegments},
	{"TestLoopback", TestLoopback},
	{"TestNoPlacement", TestNoPlacement},
	{"TestNoPlacementUnderProtection", TestNoPlacementUnderProtection},
	{"TestNothingEligibleWasPlaced", TestNothingEligibleWasPlaced},
	{"TestNullInline", TestNullInline},
	{"TestOffers", TestOffers},
	{"TestOnlyEligibleResultsArePlaced", TestOnlyEligibleResultsArePlaced},
	{"TestPlacedResults", TestPlacedResults},
	{"TestPositions", TestPositions},
	{"TestPrivateDataOfTheClient", TestPrivateDataOfTheClient},
	{"TestProgramsShareAConnection", TestProgramsShareAConnection},
	{"TestReadChunkSegmentation", TestReadChunkSegmentation},
	{"TestReconnect", TestReconnect},
	{"TestReplyChunkWithWriteChunks", TestReplyChunkWithWriteChunks},
	{"TestReplyThreshold", TestReplyThreshold},
	{"TestRetryOfCallThatBrokeTheConnection", TestRetryOfCallThatBrokeTheConnection},
	{"TestServedCallHasTheJudgedBytes", TestServedCallHasTheJudgedBytes},
	{"TestSeveralReadChunks", TestSeveralReadChunks},
	{"TestShortMessagesAreDropped", TestShortMessagesAreDropped},
	{"TestShortReplies", TestShortReplies},
	{"TestThresholdMatrix", TestThresholdMatrix},
	{"TestTruncatedHeaders", TestTruncatedHeaders},
	{"TestUnusedWriteChunk", TestUnusedWriteChunk},
	{"TestVersionMismatch", TestVersionMismatch},
	{"TestWriteChunkGetsNoRoundup", TestWriteChunkGetsNoRoundup},
	{"TestWriteChunkTooSmall", TestWriteChunkTooSmall},
	{"TestWriteList", TestWriteList},
}

// The tests of overBoth, which pass over the device in memory, also pass over the software RNIC.
func TestOverTheSoftwareRNIC(t *testing.T) {
	elsewhere = newIwarp
	defer func() { elsewhere = nil }()
	for _, c := range overBoth {
		t.Run(c.name, c.test)
	}
}

// seen returns the events of p's connection. Only the device in memory records events; for others
// it returns nil.
func seen(p *rdmatest.Peer) []rdmatest.Event {
	if elsewhere != nil {
		return nil
	}
	return p.Seen()
}
