package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// newVerbs returns the provider for RDMA devices, over a device in memory. At the end of the test it has freed all
// objects of the device.
func newVerbs(t testing.TB) rdmacm.Provider {
	d := fakedevice.New(false)
	p, err := verbs.New(verbs.Config{Library: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if left := d.Left(); left != (fakedevice.Left{}) {
			t.Errorf("the provider leaves behind %+v", left)
		}
	})
	return p
}

// The tests of version 2 that name no device also pass over RDMA devices. Those have a receive queue of a fixed length
// (ConnParam.MaxReceives), and panic if a message of any kind promises more receives than that.
func TestVersion2OverVerbs(t *testing.T) {
	elsewhere = newVerbs
	defer func() { elsewhere = nil }()
	for name, test := range map[string]func(*testing.T){
		"TestBadMessagesOfVersion2":              TestBadMessagesOfVersion2,
		"TestBadPartsOfReplies":                  TestBadPartsOfReplies,
		"TestBeyondTheLimit":                     TestBeyondTheLimit,
		"TestBrokenRuns":                         TestBrokenRuns,
		"TestCallInPartsWaitsForASlowAnswer":     TestCallInPartsWaitsForASlowAnswer,
		"TestCallInPartsWaitsForCredits":         TestCallInPartsWaitsForCredits,
		"TestCallsOfAServer":                     TestCallsOfAServer,
		"TestCallsToAClient":                     TestCallsToAClient,
		"TestClientKeepsTheLimit":                TestClientKeepsTheLimit,
		"TestCountsByVersion":                    TestCountsByVersion,
		"TestDefaultThresholdOfVersion2":         TestDefaultThresholdOfVersion2,
		"TestErrorsEndCallsOfVersion2":           TestErrorsEndCallsOfVersion2,
		"TestErrorsOfOtherVersions":              TestErrorsOfOtherVersions,
		"TestFailedXIDIsForgotten":               TestFailedXIDIsForgotten,
		"TestFirstMessageIsACall":                TestFirstMessageIsACall,
		"TestFirstMessageIsACallWithALongReply":  TestFirstMessageIsACallWithALongReply,
		"TestFullClientOfVersion2":               TestFullClientOfVersion2,
		"TestGrantAfterGrant":                    TestGrantAfterGrant,
		"TestGrantBetweenParts":                  TestGrantBetweenParts,
		"TestOnlyVersion2":                       TestOnlyVersion2,
		"TestPartsDoNotMix":                      TestPartsDoNotMix,
		"TestPartsDoNotWaitForever":              TestPartsDoNotWaitForever,
		"TestPartsOfAClient":                     TestPartsOfAClient,
		"TestPartsOfCallsAndReplies":             TestPartsOfCallsAndReplies,
		"TestPropertiesOfVersion2":               TestPropertiesOfVersion2,
		"TestProposal":                           TestProposal,
		"TestProposalAfterAnEnd":                 TestProposalAfterAnEnd,
		"TestQueuedCallBeginsAgain":              TestQueuedCallBeginsAgain,
		"TestQueuedCallsTimeOut":                 TestQueuedCallsTimeOut,
		"TestRepliesDoNotWaitForever":            TestRepliesDoNotWaitForever,
		"TestRepliesWithoutPermissionKeepNoSeat": TestRepliesWithoutPermissionKeepNoSeat,
		"TestTooManySegmentsAreNotMade":          TestTooManySegmentsAreNotMade,
		"TestUnansweredMessagesOfVersion2":       TestUnansweredMessagesOfVersion2,
		"TestUnknownVersionSettlesNothing":       TestUnknownVersionSettlesNothing,
		"TestVersion1IsSettled":                  TestVersion1IsSettled,
		"TestVersion2Dropped":                    TestVersion2Dropped,
		"TestVersion2Refused":                    TestVersion2Refused,
		"TestVersion2Unanswered":                 TestVersion2Unanswered,
		"TestVersionIsSettled":                   TestVersionIsSettled,
		"TestVersionsMeet":                       TestVersionsMeet,
	} {
		t.Run(name, test)
	}
}
