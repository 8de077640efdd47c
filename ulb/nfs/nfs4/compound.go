package nfs4

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Compound is one COMPOUND while it is executed. Compounds are pooled. A compound keeps its fields
// while it waits, except for the decoded arguments of earlier operations.
type Compound struct {
	Program *Program
	Call    *rpc.Call
	Args    *xdr.Decoder
	W       *xdr.Writer
	// Minor is the minor version that the client speaks: 0, 1 or 2.
	Minor uint32
	minor *minor
	// Index is the position of the running operation, counted from 0, out of Count
	// operations. Number is its operation number.
	Index, Count int
	Number       wire.OpNum
	// statusAt and countAt are the offsets in W of the compound's status and of the number of results.
	statusAt, countAt int

	// Current and Saved are the objects that the two file handles name, StateID and SavedStateID the
	// stateids that belong to them (RFC 8881 §16.2.3.1.2). A stateid that is not set is the anonymous
	// stateid.
	Current, Saved        Object
	StateID, SavedStateID state.StateID

	// Client is the client that SEQUENCE named; it is nil in minor version 0.
	Client *state.Client
	// Session is set by the package of the minor version. This package uses it only as a Limiter
	// and as a Maintainer.
	Session any
	// Replay is the stored reply of a compound that was executed before: see Replayed.
	Replay *rpc.Kept
	// Status is the status of the last finished operation.
	Status Status

	// maintains is true if the client sends the following operations on the current object for
	// itself, for example to close files, and not for one of its users: see willMaintain.
	maintains bool
	// replaced is true if an export was replaced, for example by a new configuration, after this
	// compound had set a file handle in that export.
	replaced bool
	// looked holds the caller's groups, if the server has looked them up.
	looked export.Looked
	// broughtBy is 1 + the index of the operation that left the current object's attributes
	// in Attr. It is 0 if no operation did.
	broughtBy int
	// began is when the running operation began (see begins), or 0.
	began time.Duration
	// reserved is the number of bytes that the running ALLOCATE or DEALLOCATE has finished: see reserve.
	reserved uint64
	// lent is the unused rest of the memory for READs for which the server reserved no memory.
	lent []byte

	running
	schedule
	scratch

	// args holds the memory for the arguments of the operations that the compound has run: see WithArgs.
	args []any
}

// running has what a Compound knows of the operation that it executes. Each operation begins with the zero value.
type running struct {
	keepBody bool
	inside   bool // Operation.Run has not returned; still true in leave after a panic
	// unsuited is true if the export of the current object does not accept the caller's security flavor.
	unsuited bool
	// identified is true when Cred is the caller in the export of the current object, and anonymous if that is
	// the export's anonymous user.
	identified, anonymous bool
	// entered holds the exports of the current and of the saved object, if the operation has marked
	// them as in use (see enter).
	entered [2]*export.Export
	// uses holds the states whose stateids the operation uses: uses[0] for the current object,
	// uses[1] for the saved object.
	uses [2]useOfState
	// Only a Sequencer needs given, the arguments of the operation and everything after them, and postponed, the
	// error of an operation that cannot be carried out but must still use up a seqid of its owner.
	given     []byte
	postponed Status
	// passes are those of the changes that the operation makes.
	passes state.Passes
	// lane is the executor lane in which a Blocked operation will wait, and start the function that
	// begins the wait of a Waiting one.
	lane  any
	start func()
	// later is what an operation waits for, if the state manager says so: see Answer.
	later state.Later
}

// schedule is the stage of a Compound in which the executor runs it, without Try.
type schedule struct {
	on    any       // the executor lane
	since time.Time // when the compound last began to run
}

// scratch holds everything that an operation passes to a file system by pointer, and its buffers, so
// that the operation allocates nothing. Any operation may overwrite it.
type scratch struct {
	// Op and Cred are passed to Current.Export.FS. They are valid while an operation on the
	// current file handle runs.
	Op   vfs.Op
	Cred vfs.Cred
	// Attr is space for the attributes of an object. Brought reports whether it holds those of the
	// current object.
	Attr vfs.Attr
	// dirChange is the change attribute of the directory in which child found a name.
	dirChange uint64
	// assignment holds the attributes that a SETATTR or a CREATE sets.
	assignment assignment
	sealed     [export.MaxSealed]byte
	view       pseudo.View
	facts      facts
	data       [1][]byte // the data of a WRITE
	list       lister
}

// KeepBody makes the Compound send the body of the result although the status is not NFS4_OK.
func (k *Compound) KeepBody() { k.keepBody = true }

// WaitFor returns the status Waiting for an operation that has to wait for an event. When the operation
// has returned, run calls start, which begins the wait and arranges that Resume is called exactly once,
// from any goroutine, perhaps before start returns. After Resume the operation runs again.
func (k *Compound) WaitFor(start func()) Status {
	k.start = start
	return Waiting
}

// Resume continues a waiting compound in the given lane of the executor (see rpc.Call.Resume). lane
// may be nil.
func (k *Compound) Resume(lane any) {
	k.on = lane
	k.Call.Resume(lane)
}

// A Limiter is a Session that limits the size of replies below the transport's limit.
type Limiter interface {
	// Left returns the number of bytes by which the reply, with its directly placed data,
	// may still grow, and the status to answer if that is not enough.
	Left(k *Compound) (n int, or Status)
}

// Served reports whether an export serves the caller. If none does, the caller is Denied: otherwise
// strangers could use up the limited client records. rpc.Conn.Known does not suffice: a call under another
// flavor may have set it.
func (k *Compound) Served() bool {
	return k.Program.exports.Serves(k.Call.Conn, &k.Call.Cred)
}

// stranger tells the administrator about a caller that no export serves, because such a refusal
// makes the client's mount fail.
func (k *Compound) stranger(answer rpc.AuthStat) {
	r := export.Refusal{Client: k.Call.Conn.Peer, Status: answer, Reason: export.Stranger}
	for _, e := range k.Program.exports.All() {
		if e.ServesAddr(r.Client.Addr()) {
			r.Export, r.Reason = e, export.UnprivilegedPort
		}
	}
	k.Program.exports.OnRefusal(&r)
}
