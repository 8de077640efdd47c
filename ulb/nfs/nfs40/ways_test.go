package nfs40_test

import (
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// If a file system cannot do a call without blocking, the executor runs the call again, and nothing
// is done twice: all tests in throughout and inTime have the same outcome.
func TestWhereEachCallWaits(t *testing.T) {
	hesitant = true
	defer func() { hesitant = false }()
	for name, test := range throughout {
		t.Run(name, test)
	}
	for name, test := range inTime {
		t.Run(name, test)
	}
}

// exported returns a file system of a directory of this machine in which every user may create
// names.
func exported(t testing.TB, dir string) vfs.FileSystem {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	fs, err := local.New(local.Config{Root: dir, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// Errors of the kernel get the same statuses as those of a file system in memory.
func TestOnTheMachinesOwnFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of all users and devices are made by the superuser alone")
	}
	onDisk = true
	defer func() { onDisk = false }()
	for name, test := range onMachine {
		t.Run(name, test)
	}
}

// onMachine are the tests whose outcome depends on the file system.
var onMachine = map[string]func(t *testing.T){
	"change":  TestChangeGoesOn,
	"getattr": TestGetattr, "setattr": TestSetattr, "setattr that cannot be": TestSetattrThatCannotBe, "setattr of the size": TestSetattrOfSize,
	"setattr of times": TestSetattrOfTimes, "setattr of owners": TestSetattrOfOwners, "verify": TestVerifyOfAllAttributes,
	"access": TestAccess, "lookup": TestLookup, "lookupp": TestLookupp, "create": TestCreate, "remove": TestRemove, "rename": TestRename,
	"rename onto the same": TestRenameOntoAnotherNameOfTheSame, "link": TestLink, "readlink": TestReadlink, "readdir": TestReaddir,
	"read": TestReadOfEachKind, "write": TestWriteOfEachKind, "commit": TestCommitOfEachKind, "ranges": TestRangesThatOverflow,
	"stale handles": TestStaleHandle, "open": TestOpenOfEachKind, "create modes": TestCreateModes, "cut": TestUncheckedCreateCuts,
	"removed and open": TestOpenFileIsRemoved, "others": TestUserWithoutPermissionIsRefused, "opens of others": TestOpensThatOthersMayNot,
	"locks": TestLockAndUnlock,
}

// throughout has all tests that need only operations, without access to the server's internals.
var throughout = map[string]func(t *testing.T){
	"ChangeGoesOn":                         TestChangeGoesOn,
	"Getattr":                              TestGetattr,
	"GetattrOfSize":                        TestGetattrOfSize,
	"LeaseTime":                            TestLeaseTime,
	"Setattr":                              TestSetattr,
	"SetattrListsSetAttributes":            TestSetattrListsSetAttributes,
	"SetattrOfSize":                        TestSetattrOfSize,
	"SetattrThatCannotBe":                  TestSetattrThatCannotBe,
	"SetattrOfTimes":                       TestSetattrOfTimes,
	"SetattrOfOwners":                      TestSetattrOfOwners,
	"SettingTheTimeOfCreation":             TestSettingTheTimeOfCreation,
	"Verify":                               TestVerify,
	"VerifyOfAllAttributes":                TestVerifyOfAllAttributes,
	"Access":                               TestAccess,
	"NewClient":                            TestNewClient,
	"UnconfirmedClientIsReplaced":          TestUnconfirmedClientIsReplaced,
	"CallbackUpdate":                       TestCallbackUpdate,
	"ClientThatHasRestarted":               TestClientThatHasRestarted,
	"ConfirmationOfUnknownClientIsRefused": TestConfirmationOfUnknownClientIsRefused,
	"NameInUse":                            TestNameInUse,
	"NameOfAClientWithoutState":            TestNameOfAClientWithoutState,
	"RenewOfUnknownClientIsRefused":        TestRenewOfUnknownClientIsRefused,
	"RenewByOtherPrincipalNeedsAnOpenFile": TestRenewByOtherPrincipalNeedsAnOpenFile,
	"OperationsOfUnknownClients":           TestOperationsOfUnknownClients,
	"NamesOfClients":                       TestNamesOfClients,
	"CallbacksThatCannotBe":                TestCallbacksThatCannotBe,
	"OperationsWithoutHandle":              TestOperationsWithoutHandle,
	"OperationsWithoutSavedHandle":         TestOperationsWithoutSavedHandle,
	"ArgumentsThatAreCutOff":               TestArgumentsThatAreCutOff,
	"OperationsThatAreNotServed":           TestOperationsThatAreNotServed,
	"PutFH":                                TestPutFH,
	"StaleHandle":                          TestStaleHandle,
	"PublicHandle":                         TestPublicHandle,
	"SaveAndRestore":                       TestSaveAndRestore,
	"NothingFollowsAFailure":               TestNothingFollowsAFailure,
	"ValuesThatAreNone":                    TestValuesThatAreNone,
	"ReadOfEachKind":                       TestReadOfEachKind,
	"WriteOfEachKind":                      TestWriteOfEachKind,
	"CommitOfEachKind":                     TestCommitOfEachKind,
	"Read":                                 TestRead,
	"Write":                                TestWrite,
	"RangesThatOverflow":                   TestRangesThatOverflow,
	"StateIDsThatAreNone":                  TestStateIDsThatAreNone,
	"Readdir":                              TestReaddir,
	"ReaddirThatCannotBe":                  TestReaddirThatCannotBe,
	"BadNames":                             TestBadNames,
	"NamesThatAreNotUTF8":                  TestNamesThatAreNotUTF8,
	"Lookup":                               TestLookup,
	"Lookupp":                              TestLookupp,
	"Create":                               TestCreate,
	"Remove":                               TestRemove,
	"Rename":                               TestRename,
	"RenameOntoAnotherNameOfTheSame":       TestRenameOntoAnotherNameOfTheSame,
	"Link":                                 TestLink,
	"Readlink":                             TestReadlink,
	"Secinfo":                              TestSecinfo,
	"OpenOfEachKind":                       TestOpenOfEachKind,
	"OpenOfBadNames":                       TestOpenOfBadNames,
	"OpenOfMissingFileFails":               TestOpenOfMissingFileFails,
	"ShareModesThatAreNone":                TestShareModesThatAreNone,
	"OpenLeadsToTheFile":                   TestOpenLeadsToTheFile,
	"CreateModes":                          TestCreateModes,
	"UncheckedCreateCuts":                  TestUncheckedCreateCuts,
	"CreateWithAttributesThatCannotBe":     TestCreateWithAttributesThatCannotBe,
	"ClaimsThatAreNone":                    TestClaimsThatAreNone,
	"ClaimsOfDelegations":                  TestClaimsOfDelegations,
	"ClaimWithoutGrace":                    TestClaimWithoutGrace,
	"ShareModes":                           TestShareModes,
	"OpenUpgrade":                          TestOpenUpgrade,
	"OpenDowngrade":                        TestOpenDowngrade,
	"DenialOfSpecialStateIDs":              TestDenialOfSpecialStateIDs,
	"StateIDOfAnotherFile":                 TestStateIDOfAnotherFile,
	"SeqidsOfStateIDs":                     TestSeqidsOfStateIDs,
	"StaleStateID":                         TestStaleStateID,
	"OpenFileIsRemoved":                    TestOpenFileIsRemoved,
	"RemovalThatIsDenied":                  TestRemovalThatIsDenied,
	"OpenConfirm":                          TestOpenConfirm,
	"FirstNumber":                          TestFirstNumber,
	"NumbersWrapAround":                    TestNumbersWrapAround,
	"OpenConfirmThatCannotBe":              TestOpenConfirmThatCannotBe,
	"UnconfirmedStateID":                   TestUnconfirmedStateID,
	"UnconfirmedOpenIsReplaced":            TestUnconfirmedOpenIsReplaced,
	"Replays":                              TestReplays,
	"ReplayOfOpenLeadsToTheFile":           TestReplayOfOpenLeadsToTheFile,
	"NumbersOutOfOrder":                    TestNumbersOutOfOrder,
	"ReplayOfAnotherOperation":             TestReplayOfAnotherOperation,
	"ErrorsAndNumbers":                     TestErrorsAndNumbers,
	"CloseComesAgain":                      TestCloseComesAgain,
	"OwnersAreApart":                       TestOwnersAreApart,
	"NamesOfOwners":                        TestNamesOfOwners,
	"LockAndUnlock":                        TestLockAndUnlock,
	"RangesThatAreNone":                    TestRangesThatAreNone,
	"RangesAtTheEnd":                       TestRangesAtTheEnd,
	"LockConflicts":                        TestLockConflicts,
	"LocksAreChanged":                      TestLocksAreChanged,
	"UpgradeThatIsDenied":                  TestUpgradeThatIsDenied,
	"LockOfAnotherMode":                    TestLockOfAnotherMode,
	"StateIDsOfLocks":                      TestStateIDsOfLocks,
	"OnlyRegularFilesHaveState":            TestOnlyRegularFilesHaveState,
	"LockOwnerOfTwoFiles":                  TestLockOwnerOfTwoFiles,
	"CloseWithLocks":                       TestCloseWithLocks,
	"LockTestOfEachKind":                   TestLockTestOfEachKind,
	"ReleaseLockOwner":                     TestReleaseLockOwner,
	"LockOwnersOfOneClient":                TestLockOwnersOfOneClient,
	"LockTypesThatAreNone":                 TestLockTypesThatAreNone,
	"ClaimOfLockWithoutGrace":              TestClaimOfLockWithoutGrace,
}

// inTime has the tests that run in the fake time of testing/synctest.
var inTime = map[string]func(t *testing.T){
	"LeaseIsRenewed":                  TestLeaseIsRenewed,
	"LeaseIsNotRenewed":               TestLeaseIsNotRenewed,
	"ExpiredClient":                   TestExpiredClient,
	"Courtesy":                        TestCourtesy,
	"NameOfAnExpiredClient":           TestNameOfAnExpiredClient,
	"UnconfirmedOpenEnds":             TestUnconfirmedOpenEnds,
	"FirstOpenIsRecorded":             TestFirstOpenIsRecorded,
	"Restart":                         TestRestart,
	"SecondRestart":                   TestSecondRestart,
	"ExpiredClientDoesNotClaim":       TestExpiredClientDoesNotClaim,
	"RestartWithoutClientsHasNoGrace": TestRestartWithoutClientsHasNoGrace,
}
