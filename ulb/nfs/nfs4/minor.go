package nfs4

import wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Status is what an operation came to: an NFS status, or one of the ends below that
// never reach the wire.
type Status = wire.NFSStat4

const (
	// Blocked: under Compound.Op.Try the operation would have to wait. It has done
	// nothing, and is run again from its arguments on, without Try.
	Blocked Status = -1
	// Waiting: the operation has to wait for something that ends elsewhere, as it
	// said by Compound.WaitFor. It is run again from its arguments on, without Try.
	Waiting Status = -2
	// Replayed: the compound was executed before. Its results are Compound.Replay.
	Replayed Status = -3
	// Discarded: the request is not answered at all.
	Discarded Status = -4
	// Denied: the caller may not call at all. It is told so by RPC.
	Denied Status = -5
)

// A Minor is one minor version: what it does in a way of its own.
type Minor interface {
	// Operations are those that are the minor version's alone, and those shared ones
	// that it does in another way.
	Operations() []Operation
	// Before is asked before each operation, the first to come included, whether it may
	// stand where it does: its index in the compound is k.Index, and k.Count is how
	// many there are. wire.NFS4OK lets it run; everything else is its result.
	Before(k *Compound, op *Operation) Status
	// After is called once when the compound has ended, however it did, with all
	// of its results in k.W. Where k.Status is below 0, Discarded or Denied, the results
	// are no answer. A compound that is Replayed has no After.
	After(k *Compound)
}

// An Operation is one row of the table of a minor version.
type Operation struct {
	Number wire.OpNum
	// Run decodes the arguments from k.Args, works, and writes what follows the
	// status in the result to k.W where the status is NFS4_OK. What it writes with
	// another status is taken back, unless it called k.KeepBody.
	Run func(k *Compound) Status
	// Handle: the operation works on the current file handle, and is answered
	// NFS4ERR_NOFILEHANDLE where there is none. k.Current.Export is entered
	// while it runs.
	Handle bool
	// Saved: it works on the saved file handle as well.
	Saved bool
	// Changes: it changes the file system, and is answered NFS4ERR_ROFS on an
	// export that is read-only.
	Changes bool
	// Once: it must not be executed where its result cannot be carried back. Most
	// is the largest result without the status, in bytes.
	Once bool
	Most int
}
