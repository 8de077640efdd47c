package nfs4

import wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Status is the outcome of an operation: an NFS status, or one of the negative values
// below, which never reach the wire.
type Status = wire.NFSStat4

const (
	// Blocked means that the operation would have had to wait, which it must not do under
	// Compound.Op.Try (see vfs.Op). The operation has changed nothing. It will decode its arguments
	// and run again, without Try.
	Blocked Status = -1
	// Waiting means that the operation waits for the event that it passed to
	// Compound.WaitFor. It will decode its arguments and run again, without Try.
	Waiting Status = -2
	// Replayed means that the compound was executed before. The reply is Compound.Replay.
	Replayed Status = -3
	// Discarded means that the request gets no reply.
	Discarded Status = -4
	// Denied means that the caller may not make this call. The server answers with an RPC
	// error.
	Denied Status = -5
)

// A Minor supplies the parts that differ between the minor versions.
type Minor interface {
	// Operations returns the operations that only this minor version has, and the shared
	// operations that it implements in another way.
	Operations() []Operation
	// Before is called before each operation, including the first. It checks that the
	// operation is allowed at its position in the compound: k.Index is the operation's
	// index, k.Count the number of operations. If Before returns wire.NFS4OK, the operation
	// runs. Any other status becomes the operation's result.
	Before(k *Compound, op *Operation) Status
	// After is called once when the compound has ended, in whatever way, with all of its
	// results in k.W. If k.Status is Discarded or Denied, these results are not sent. After
	// is not called for a Replayed compound.
	After(k *Compound)
}

// An Operation is one row of a minor version's table of operations.
type Operation struct {
	Number wire.OpNum
	// Run decodes the arguments from k.Args and does the work. If the status is NFS4_OK, it writes
	// the part of the result that follows the status to k.W. With another status, the Compound
	// discards the bytes that Run wrote, unless Run called k.KeepBody.
	Run func(k *Compound) Status
	// Handle is true if the operation uses the current file handle. If none is set, the answer
	// is NFS4ERR_NOFILEHANDLE. While the operation runs, k.Current.Export is marked as in use
	// (export.Export.Enter).
	Handle bool
	// Saved is true if the operation also uses the saved file handle.
	Saved bool
	// Changes is true if the operation changes the file system. On a read-only export, the
	// answer is NFS4ERR_ROFS.
	Changes bool
	// Once is true if the operation must not be executed twice, so that its result must reach the
	// client: it runs only if the reply has room for its largest result. Most is the size of that
	// result, without the status, in bytes.
	Once bool
	Most int
}
