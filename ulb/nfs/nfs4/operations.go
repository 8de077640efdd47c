package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxTag is the maximum length of a compound's tag, in bytes.
const maxTag = 1024

// lastOperation is the highest operation number that this package knows. The package does not serve
// every operation that it knows: it does not serve those on extended attributes.
const lastOperation = wire.OpRemoveXattr

// lastOf holds the highest operation number of each minor version.
var lastOf = [...]wire.OpNum{wire.OpReleaseLockOwner, wire.OpReclaimComplete, lastOperation}

// legal reports whether a minor version defines an operation, served or not.
func legal(n wire.OpNum, minor uint32) bool {
	return n >= wire.OpAccess && n <= lastOf[minor]
}

// shared lists the operations that the minor versions have in common.
var shared = []Operation{
	{Number: wire.OpPutFH, Run: putFH},
	{Number: wire.OpPutPubFH, Run: putRootFH},
	{Number: wire.OpPutRootFH, Run: putRootFH},
	{Number: wire.OpGetFH, Run: getFH, Handle: true},
	{Number: wire.OpSaveFH, Run: saveFH, Handle: true},
	{Number: wire.OpRestoreFH, Run: restoreFH},

	{Number: wire.OpLookup, Run: lookup, Handle: true},
	{Number: wire.OpLookupp, Run: lookupParent, Handle: true},
	{Number: wire.OpGetattr, Run: getattr, Handle: true},
	{Number: wire.OpAccess, Run: access, Handle: true},
	{Number: wire.OpReaddir, Run: readdir, Handle: true},
	{Number: wire.OpReadlink, Run: readlink, Handle: true},
	{Number: wire.OpSecInfo, Run: secinfo, Handle: true},
	{Number: wire.OpSecInfoNoName, Run: secinfoNoName, Handle: true},
	{Number: wire.OpVerify, Run: verify, Handle: true},
	{Number: wire.OpNverify, Run: nverify, Handle: true},
	{Number: wire.OpSetattr, Run: setattr, Handle: true, Changes: true, Once: true, Most: wire.Bitmap4MaxSize},
	{Number: wire.OpCreate, Run: create, Handle: true, Changes: true, Once: true, Most: wire.Create4ResOKMaxSize},
	{Number: wire.OpRemove, Run: remove, Handle: true, Changes: true, Once: true, Most: wire.Remove4ResOKMaxSize},
	{Number: wire.OpRename, Run: rename, Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Rename4ResOKMaxSize},
	{Number: wire.OpLink, Run: link, Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Link4ResOKMaxSize},

	{Number: wire.OpRead, Run: read, Handle: true},
	{Number: wire.OpWrite, Run: write, Handle: true, Changes: true},
	{Number: wire.OpCommit, Run: commit, Handle: true},

	{Number: wire.OpOpen, Run: open, Handle: true, Once: true, Most: nfs.MaxOpen4},
	{Number: wire.OpClose, Run: closeFile, Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpOpenDowngrade, Run: openDowngrade, Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpLock, Run: lock, Handle: true, Once: true, Most: wire.Lock4ResOKMaxSize},
	{Number: wire.OpLockt, Run: lockTest, Handle: true},
	{Number: wire.OpLocku, Run: unlock, Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpFreeStateID, Run: freeStateID, Once: true},
	{Number: wire.OpTestStateID, Run: testStateID},
	{Number: wire.OpDelegreturn, Run: delegReturn, Handle: true},
	{Number: wire.OpDelegpurge, Run: delegPurge},

	{Number: wire.OpAllocate, Run: allocate, Handle: true, Changes: true, Once: true},
	{Number: wire.OpDeallocate, Run: deallocate, Handle: true, Changes: true, Once: true},
	{Number: wire.OpSeek, Run: seek, Handle: true},
	{Number: wire.OpReadPlus, Run: readPlus, Handle: true},
	{Number: wire.OpIOAdvise, Run: advise, Handle: true},
	{Number: wire.OpCopy, Run: copyRange, Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Copy4ResOKMaxSize},
	{Number: wire.OpClone, Run: clone, Handle: true, Saved: true, Changes: true, Once: true},
}
