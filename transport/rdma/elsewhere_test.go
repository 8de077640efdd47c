package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
)

// elsewhere is the device of benches and scripts that name none. If it is nil, each has a device
// in memory of its own.
var elsewhere func(testing.TB) rdmacm.Provider

// overBoth are the rules of the transport that are also tested over the software RNIC.
// docs/conformance-rpcrdma-v1.md says of each other rule why it is not.
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
	{"TestNoPlacementWithoutPlan", TestNoPlacementWithoutPlan},
	{"TestNothingEligibleWasPlaced", TestNothingEligibleWasPlaced},
	{"TestNullInline", TestNullInline},
	{"TestOffers", TestOffers},
	{"TestOnlyEligibleResultsArePlaced", TestOnlyEligibleResultsArePlaced},
	{"TestPlacedResults", TestPlacedResults},
	{"TestPositions", TestPositions},
	{"TestPrivateDataOfTheClient", TestPrivateDataOfTheClient},
	{"TestReadChunkSegmentation", TestReadChunkSegmentation},
	{"TestReconnect", TestReconnect},
	{"TestReplyChunkWithWriteChunks", TestReplyChunkWithWriteChunks},
	{"TestReplyThreshold", TestReplyThreshold},
	{"TestRetryOfCallThatBrokeTheConnection", TestRetryOfCallThatBrokeTheConnection},
	{"TestSeveralReadChunks", TestSeveralReadChunks},
	{"TestShortMessagesAreDropped", TestShortMessagesAreDropped},
	{"TestShortReplies", TestShortReplies},
	{"TestThresholdMatrix", TestThresholdMatrix},
	{"TestTruncatedHeaders", TestTruncatedHeaders},
	{"TestUnusedWriteChunk", TestUnusedWriteChunk},
	{"TestVersionMismatch", TestVersionMismatch},
	{"TestServedCallHasTheJudgedBytes", TestServedCallHasTheJudgedBytes},
	{"TestWriteChunkGetsNoRoundup", TestWriteChunkGetsNoRoundup},
	{"TestWriteChunkTooSmall", TestWriteChunkTooSmall},
	{"TestWriteList", TestWriteList},
}

// Each of these tests, which pass over the device in memory, passes over the software RNIC.
func TestOverTheSoftwareRNIC(t *testing.T) {
	elsewhere = newIwarp
	defer func() { elsewhere = nil }()
	for _, c := range overBoth {
		t.Run(c.name, c.test)
	}
}

// seen returns the device's events on p's connection; only the device in memory has them.
func seen(p *rdmatest.Peer) []rdmatest.Event {
	if elsewhere != nil {
		return nil
	}
	return p.Seen()
}
