package nfs4

import wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Status is the outcome of an operation: an NFS status, or one of the negative values
// below, which never reach the wire.
type Status = wire.NFSStat4

const (
	// Blocked: under Compound.Op.Try the operation would have had to wait. It has changed
	// nothing and will run again from its arguments on, without Try.
	Blocked Status = -1
	// Waiting: the operation waits for an event that it named by Compound.WaitFor. It will
	// run again from its arguments on, without Try.
	Waiting Status = -2
	// Replayed: the compound was executed before. The reply is Compound.Replay.
	Replayed Status = -3
	// Discarded: the request gets no reply.
	Discarded Status = -4
	// Denied: the caller may not call at all. RPC tells it so.
	Denied Status = -5
)

// A Minor supplies the parts that differ between the minor versions.
type Minor interface {
	// Operations returns the operations that only this minor version has, and the shared
	// operations that it implements in another way.
	Operations() []Operation
	// Before is called before each operation, including the first. It checks that the
	// operation may stand at its place: k.Index is the operation's index, k.Count the number
	// of operations in the compound. If it returns wire.NFS4OK, the operation runs. Any other
	// status becomes the operation's result.
	Before(k *Compound, op *Operation) Status
	// After is called once when the compound has ended, in whatever way, with all of its
	// results in k.W. If k.Status is Discarded or Denied, no results are sent. After is not
	// called for a Replayed compound.
	After(k *Compound)
}

// An Operation is one row of a minor version's table of operations.
type Operation struct {
	Number wire.OpNum
	// Run decodes the arguments from k.Args and does the work. If the status is NFS4_OK, it
	// writes the part of the result that follows the status to k.W. With another status, the
	// engine discards what Run wrote, unless Run called k.KeepBody.
	Run func(k *Compound) Status
	// Handle: the operation works on the current file handle. Without one, the answer is
	// NFS4ERR_NOFILEHANDLE. k.Current.Export is entered while the operation runs.
	Handle bool
	// Saved: the operation also works on the saved file handle.
	Saved bool
	// Changes: the operation changes the file system. On a read-only export, the answer is
	// NFS4ERR_ROFS.
	Changes bool
	// Once: the operation must not run if the reply has no room for its result. Most is the
	// size of the largest result without the status, in bytes.
	Once bool
	Most int
}
