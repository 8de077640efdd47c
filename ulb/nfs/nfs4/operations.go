package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Status is the outcome of an operation: an NFS status, or one of the negative values
// below, which never reach the wire.
type Status = wire.NFSStat4

const (
	// Blocked means that the operation would have had to wait although Compound.Op.Try is set. It has
	// changed nothing. It will decode its arguments and run again, without Try.
	Blocked Status = -1
	// Waiting means that the operation waits for the event that it passed to
	// Compound.WaitFor. It will decode its arguments and run again, without Try.
	Waiting Status = -2
	// Replayed means that the compound was executed before. The reply is Compound.Replay.
	Replayed Status = -3
	// Discarded means that the request gets no reply.
	Discarded Status = -4
	// Denied means that the caller may not make this call. The server answers with an RPC error.
	Denied Status = -5
)

// A Minor supplies the parts that differ between the minor versions.
type Minor interface {
	// Operations returns the operations that only this minor version has, and the shared
	// operations that it implements in another way.
	Operations() []Operation
	// Before is called before each operation. It checks that the operation is allowed at its position:
	// k.Index is the operation's index, k.Count the number of operations. A status other than wire.NFS4OK
	// becomes the operation's result.
	Before(k *Compound, op *Operation) Status
	// After is called once when the compound has ended, in whatever way, except for a Replayed one. Its
	// results are in k.W; if k.Status is Discarded or Denied, they are not sent.
	After(k *Compound)
}

// An Operation is one row of a minor version's table of operations.
type Operation struct {
	Number wire.OpNum
	// Run decodes the arguments from k.Args and does the work. If the status is NFS4_OK, it writes
	// the part of the result that follows the status to k.W. With another status, the Compound
	// discards the bytes that Run wrote, unless Run called k.KeepBody.
	Run func(k *Compound) Status
	// Handle is true if the operation uses the current file handle. While the operation runs,
	// k.Current.Export is marked as in use (export.Export.Enter).
	Handle bool
	// Saved is true if the operation also uses the saved file handle.
	Saved bool
	// Changes is true if the operation changes the file system. On a read-only export, the
	// answer is NFS4ERR_ROFS.
	Changes bool
	// Gate says what the operation asks before it uses a file.
	Gate Gate
	// Once is true if the operation must not be executed twice, so that its result must reach the
	// client: it runs only if the reply has room for its largest result. Most is the size of that
	// result, without the status, in bytes.
	Once bool
	Most int
}

// lastOperation is the highest operation number that this package knows. The package does not serve
// every operation that it knows: it does not serve those on layouts.
const lastOperation = wire.OpRemoveXattr

// lastOf holds the highest operation number of each minor version.
var lastOf = [...]wire.OpNum{wire.OpReleaseLockOwner, wire.OpReclaimComplete, lastOperation}

// legal reports whether a minor version defines an operation, served or not.
func legal(n wire.OpNum, minor uint32) bool {
	return n >= wire.OpAccess && n <= lastOf[minor]
}

// shared lists the operations that the minor versions have in common.
var shared = []Operation{
	{Number: wire.OpPutFH, Gate: GateNone, Run: WithArgs(putFH)},
	{Number: wire.OpPutPubFH, Gate: GateNone, Run: putRootFH},
	{Number: wire.OpPutRootFH, Gate: GateNone, Run: putRootFH},
	{Number: wire.OpGetFH, Gate: GateNone, Run: getFH, Handle: true},
	{Number: wire.OpSaveFH, Gate: GateNone, Run: saveFH, Handle: true},
	{Number: wire.OpRestoreFH, Gate: GateNone, Run: restoreFH},

	{Number: wire.OpLookup, Gate: GateNames, Run: WithArgs(lookup), Handle: true},
	{Number: wire.OpLookupp, Gate: GateNames, Run: lookupParent, Handle: true},
	{Number: wire.OpGetattr, Gate: GateStat, Run: WithArgs(getattr), Handle: true},
	{Number: wire.OpAccess, Gate: GateStat, Run: WithArgs(access), Handle: true},
	{Number: wire.OpReaddir, Gate: GateNames, Run: WithArgs(readdir), Handle: true},
	{Number: wire.OpReadlink, Gate: GateStat, Run: readlink, Handle: true},
	{Number: wire.OpSecInfo, Gate: GateNames, Run: WithArgs(secinfo), Handle: true},
	{Number: wire.OpSecInfoNoName, Gate: GateOwn, Run: WithArgs(secinfoNoName), Handle: true},
	{Number: wire.OpVerify, Gate: GateStat, Run: WithArgs(verify), Handle: true},
	{Number: wire.OpNverify, Gate: GateStat, Run: WithArgs(nverify), Handle: true},
	{Number: wire.OpSetattr, Gate: GateOwn, Run: WithArgs(setattr), Handle: true, Changes: true, Once: true, Most: wire.Bitmap4MaxSize},
	{Number: wire.OpCreate, Gate: GateOwn, Run: WithArgs(create), Handle: true, Changes: true, Once: true, Most: wire.Create4ResOKMaxSize},
	{Number: wire.OpRemove, Gate: GateOwn, Run: WithArgs(remove), Handle: true, Changes: true, Once: true, Most: wire.Remove4ResOKMaxSize},
	{Number: wire.OpRename, Gate: GateOwn, Run: WithArgs(rename), Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Rename4ResOKMaxSize},
	{Number: wire.OpLink, Gate: GateOwn, Run: WithArgs(link), Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Link4ResOKMaxSize},

	{Number: wire.OpRead, Gate: GateOwn, Run: WithArgs(read), Handle: true},
	{Number: wire.OpWrite, Gate: GateOwn, Run: WithArgs(write), Handle: true, Changes: true},
	{Number: wire.OpCommit, Gate: GateCommit, Run: WithArgs(commit), Handle: true},

	{Number: wire.OpOpen, Gate: GateOwn, Run: WithArgs(open), Handle: true, Once: true, Most: nfs.MaxOpen4},
	{Number: wire.OpClose, Gate: GateNone, Run: WithArgs(closeFile), Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpOpenDowngrade, Gate: GateNone, Run: WithArgs(openDowngrade), Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpLock, Gate: GateNone, Run: WithArgs(lock), Handle: true, Once: true, Most: wire.Lock4ResOKMaxSize},
	{Number: wire.OpLockt, Gate: GateNone, Run: WithArgs(lockTest), Handle: true},
	{Number: wire.OpLocku, Gate: GateNone, Run: WithArgs(unlock), Handle: true, Once: true, Most: wire.StateID4MaxSize},
	{Number: wire.OpFreeStateID, Gate: GateNone, Run: WithArgs(freeStateID), Once: true},
	{Number: wire.OpTestStateID, Gate: GateNone, Run: WithArgs(testStateID)},
	{Number: wire.OpDelegreturn, Gate: GateNone, Run: WithArgs(delegReturn), Handle: true},
	{Number: wire.OpDelegpurge, Gate: GateNone, Run: WithArgs(delegPurge)},

	{Number: wire.OpAllocate, Gate: GateOwn, Run: WithArgs(allocate), Handle: true, Changes: true, Once: true},
	{Number: wire.OpDeallocate, Gate: GateOwn, Run: WithArgs(deallocate), Handle: true, Changes: true, Once: true},
	{Number: wire.OpSeek, Gate: GateOwn, Run: WithArgs(seek), Handle: true},
	{Number: wire.OpReadPlus, Gate: GateOwn, Run: WithArgs(readPlus), Handle: true},
	{Number: wire.OpIOAdvise, Gate: GateOwn, Run: WithArgs(advise), Handle: true},
	{Number: wire.OpCopy, Gate: GateOwn, Run: WithArgs(copyRange), Handle: true, Saved: true, Changes: true, Once: true, Most: wire.Copy4ResOKMaxSize},
	{Number: wire.OpClone, Gate: GateOwn, Run: WithArgs(clone), Handle: true, Saved: true, Changes: true, Once: true},
	{Number: wire.OpGetXattr, Gate: GateStat, Run: WithArgs(getXattr), Handle: true},
	{Number: wire.OpSetXattr, Gate: GateOwn, Run: WithArgs(setXattr), Handle: true, Changes: true, Once: true, Most: wire.ChangeInfo4MaxSize},
	{Number: wire.OpListXattrs, Gate: GateStat, Run: WithArgs(listXattrs), Handle: true},
	{Number: wire.OpRemoveXattr, Gate: GateOwn, Run: WithArgs(removeXattr), Handle: true, Changes: true, Once: true, Most: wire.ChangeInfo4MaxSize},
}

// StatusOf converts a file system's error to an NFSv4 status (RFC 8881 §15.1). The numbers are those
// of NFSv3, except that NFSv4 has no NFS3ERR_NODEV.
func StatusOf(err error) Status {
	if errors.Is(err, syscall.ENODEV) {
		return wire.NFS4ErrNXIO
	}
	return Status(export.StatusOf(err))
}
