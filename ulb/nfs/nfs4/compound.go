package nfs4

import (
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
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

	// Current and Saved are the objects that the two file handles name. StateID is the current
	// stateid; SavedStateID belongs to the saved file handle (RFC 8881 §16.2.3.1.2). A stateid that
	// is not set is the anonymous stateid.
	Current, Saved        Object
	StateID, SavedStateID wire.StateID4

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
	// lent is the unused rest of the memory for READs for which the server reserved no memory.
	lent []byte

	running
	schedule
	scratch

	// args holds, by operation, the memory for its arguments: see WithArgs.
	args *[lastOperation + 1]any
}

// running is the stage of a Compound in which it executes one operation. Each operation begins with
// the zero value.
type running struct {
	keepBody bool
	inside   bool // Operation.Run has not returned; still true in leave after a panic
	// unsuited is true if the export of the current object does not accept the caller's
	// security flavor.
	unsuited bool
	// entered holds the exports of the current and of the saved object, if the operation has marked
	// them as in use (see enter).
	entered [2]*export.Export
	// uses holds the states whose stateids the operation uses: uses[0] for the current object,
	// uses[1] for the saved object.
	uses [2]useOfState
	// Only minor version 0 uses the following fields. given holds the arguments of the operation and
	// everything after them. postponed is the error of an operation that cannot be carried out but
	// must still use up a seqid of its owner.
	given     []byte
	postponed Status
	// lane is the executor lane in which a Blocked operation will wait, and start the function that
	// begins the wait of a Waiting one.
	lane  any
	start func()
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

// brought records that the operation left the attributes of the current object in k.Attr.
// It does so only under Op.Try, because after a wait the attributes may be older than those
// that other callers have already seen.
func (k *Compound) brought() {
	if k.Op.Try {
		k.broughtBy = k.Index + 1
	}
}

// Brought reports whether the previous operation left the attributes of the current object
// in k.Attr.
func (k *Compound) Brought() bool { return k.broughtBy > 0 && k.broughtBy == k.Index }

// KeepBody makes the Compound send the body of the result although the status is not NFS4_OK.
func (k *Compound) KeepBody() { k.keepBody = true }

// FS returns the file system of the current file handle.
func (k *Compound) FS() vfs.FileSystem {
	return k.Program.names.FileSystem(k.Current.Export, k.Call.Conn, &k.Call.Cred)
}

// SetCurrent makes o the current object. It forgets the current stateid, which belonged to the
// previous object (RFC 8881 §16.2.3.1.2).
func (k *Compound) SetCurrent(o Object) { k.Current, k.StateID = o, state.Anonymous }

// Block returns the status Blocked. An operation calls it if, under Op.Try, the file system
// would have had to wait. lane is the executor lane in which the operation will wait: a queue of
// calls for one file system or other resource that may stall (see rpc).
func (k *Compound) Block(lane any) Status {
	k.lane = lane
	return Blocked
}

// Failed returns the status, perhaps Blocked or Waiting, of an operation that failed with
// err. err is not nil.
func (k *Compound) Failed(err error) Status {
	if blocked(err) {
		return k.Block(k.FS().Lane())
	}
	if pending, ok := errors.AsType[export.Pending](err); ok {
		lane := k.FS().Lane()
		return k.WaitFor(func() { pending.Await(func() { k.Resume(lane) }) })
	}
	return StatusOf(err)
}

// WithArgs returns the Operation.Run of an operation with arguments: it decodes them and calls run. The
// arguments are valid until run returns.
func WithArgs[A any, P interface {
	*A
	Decode(d *xdr.Decoder)
}](run func(k *Compound, args P) Status) func(k *Compound) Status {
	return func(k *Compound) Status {
		kept := &k.args[k.Number]
		args, _ := (*kept).(P)
		if args == nil {
			args = new(A)
		}
		*kept = nil // if run panics, these arguments are not used again
		s := wire.NFS4ErrBadXDR
		if args.Decode(k.Args); k.Decoded() {
			s = run(k, args)
		}
		*args = *new(A)
		*kept = args
		return s
	}
}

// Decoded reports whether everything so far could be decoded.
func (k *Compound) Decoded() bool { return k.Args.Err() == nil }

// decodeHead decodes the head of the COMPOUND (tag, minor version, number of operations) and
// writes the head of the reply, with status and count to be patched later. If the status is not
// NFS4_OK, it is the status of the compound, and no operation runs.
func (k *Compound) decodeHead(p *Program, c *rpc.Call, w *xdr.Writer) Status {
	k.Program, k.Call, k.Args, k.W = p, c, &c.Args, w
	tag := k.Args.Opaque(maxTag)
	k.Minor = k.Args.Uint32()
	k.Count = int(min(k.Args.Uint32(), 1<<30))
	s := wire.NFS4OK
	switch {
	case !k.Decoded():
		return wire.NFS4ErrBadXDR
	case k.Minor >= uint32(len(p.minors)) || p.minors[k.Minor] == nil:
		s = wire.NFS4ErrMinorVersMismatch
	case !utf8.Valid(tag):
		s = wire.NFS4ErrInvalid
	default:
		k.minor = p.minors[k.Minor]
	}
	k.statusAt = w.Len()
	w.Uint32(uint32(s))
	w.Opaque(tag)
	k.countAt = w.Len()
	w.Uint32(0)
	k.Op.Cred = &k.Cred
	return s
}

// recycle returns the compound to the pool. It keeps the memory for arguments and for the names of
// owners and groups.
func (k *Compound) recycle() {
	k.Call.Progress = nil
	p, owner, group := k.Program, k.facts.owner[:0], k.facts.group[:0]
	*k = Compound{scratch: scratch{facts: facts{owner: owner, group: group}}, args: k.args}
	p.compounds.Put(k)
}

// run executes operations from k.Index on, until an operation fails, an operation has to
// wait, or the last one has finished. The second result is false if the compound will
// continue later.
func (k *Compound) run() (rpc.Outcome, bool) {
	k.broughtBy = 0 // attributes found before the wait may be old
	for ; k.Index < k.Count; k.Index++ {
		k.Call.Mark(k.W)
		if k.Op.Try && k.Index == attemptedOps {
			return k.leaveAttempt(), false
		}
		switch s := k.step(); s {
		case Blocked:
			k.on = k.lane
			return rpc.WouldBlock(k.lane), false
		case Waiting:
			k.Call.Detach()
			k.start() // from here on the compound may belong to another goroutine
			return rpc.Outcome{Pending: true}, false
		case Discarded, Denied:
			k.Status = s
			k.minor.After(k)
			if s == Discarded {
				return rpc.Dropped, true
			}
			k.stranger(rpc.AuthBadCred)
			return rpc.Denied(rpc.AuthBadCred), true
		case Replayed:
			k.W.Truncate(k.statusAt)
			return k.Replay.Put(k.W), true
		default:
			k.Status = s
			if k.W.Overflow() {
				return k.ended(), true // package rpc answers with an error instead of this reply, but the compound has ended
			}
			k.W.PatchUint32(k.countAt, uint32(k.Index+1))
			if s != wire.NFS4OK {
				k.W.PatchUint32(k.statusAt, uint32(s))
				return k.ended(), true
			}
			if !k.Op.Try && k.Index+1 < k.Count && k.giveWay() {
				return rpc.Outcome{Pending: true}, false
			}
		}
	}
	return k.ended(), true
}

func (k *Compound) ended() rpc.Outcome {
	k.minor.After(k)
	if k.Client != nil {
		k.meet()
	}
	return rpc.Done // also after a failure, because failures are counted by operation
}

// meet marks the connection of a client's session as that of a real client (rpc.Conn.MarkKnown), if
// an export serves the client and accepts its flavor. Judge marks a connection when a compound
// begins with a file handle, and on a connection that only renews a lease no compound does. If the
// flavor is RPCSEC_GSS, the export need not accept it, because a client may renew its lease under
// another service (authentication, integrity or privacy) than its users' calls.
func (k *Compound) meet() {
	c, cred := k.Call.Conn, &k.Call.Cred
	if !c.Known() && slices.ContainsFunc(k.Program.exports.All(), func(e *export.Export) bool {
		return e.Serves(c, cred) && (cred.Flavor == rpc.AuthGSS || e.Admits(c, cred))
	}) {
		c.MarkKnown()
	}
}

// Served reports whether an export serves the caller. If none does, the caller is Denied: otherwise
// strangers could use up the client records, whose number is limited. It is not enough that the
// connection is known (rpc.Conn.Known), because a call under another flavor may have made it known.
func (k *Compound) Served() bool {
	c, cred := k.Call.Conn, &k.Call.Cred
	return slices.ContainsFunc(k.Program.exports.All(), func(e *export.Export) bool { return e.Serves(c, cred) })
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

// step executes one operation and writes its result. If the status is negative, the result is
// incomplete. Package rpc then discards it before the next attempt (rpc.Call.Mark).
func (k *Compound) step() Status {
	k.Number = wire.OpNum(k.Args.Uint32())
	if k.Index == nfs.MaxOperations && k.Minor == 0 {
		// Clients of later minor versions learn the limit when they create their session.
		return k.runAndWrite(nil, wire.NFS4ErrResource)
	}
	if !k.Decoded() {
		// The request claims more operations than it contains.
		k.Number = wire.OpIllegal
		return k.runAndWrite(nil, wire.NFS4ErrBadXDR)
	}
	op := k.minor.find(k.Number)
	if op == nil {
		if !legal(k.Number, k.Minor) {
			k.Number = wire.OpIllegal
			return k.runAndWrite(nil, wire.NFS4ErrOpIllegal)
		}
		if s := k.minor.Before(k, &Operation{Number: k.Number}); s != wire.NFS4OK {
			return k.runAndWrite(nil, s)
		}
		return k.runAndWrite(nil, wire.NFS4ErrNotSupp)
	}
	if s := k.minor.Before(k, op); s != wire.NFS4OK {
		return k.runAndWrite(nil, s)
	}
	return k.runAndWrite(op, wire.NFS4OK)
}

// runAndWrite runs op and writes its result. If op is nil, it writes the status s.
func (k *Compound) runAndWrite(op *Operation, s Status) Status {
	k.W.Uint32(uint32(k.Number))
	at := k.W.Len()
	k.W.Uint32(0)
	k.running = running{}
	if op != nil {
		s = k.perform(op)
	}
	if s < 0 {
		return s
	}
	if s != wire.NFS4OK && !k.keepBody {
		k.W.Truncate(at + 4)
	} else if or := k.exceeded(); or != wire.NFS4OK {
		k.W.Truncate(at + 4)
		s = or
	}
	if s != wire.NFS4OK && k.Number == wire.OpSetattr && !k.keepBody {
		k.W.Uint32(0) // a failed SETATTR, too, lists the attributes set: none
	}
	if s == wire.NFS4ErrBadXDR && k.Call.Early && k.Number != wire.OpIllegal {
		// The arguments may be correct. They were not fetched, because the compound is longer than the
		// server accepts from an unknown peer (see judgeByName).
		s = wire.NFS4ErrReqTooBig
		if k.Minor == 0 {
			s = wire.NFS4ErrResource
		}
	}
	k.Program.counters.count(k, s)
	k.W.PatchUint32(at, uint32(s))
	return s
}

// WaitFor returns the status Waiting for an operation that has to wait for an event. After the
// operation has returned, run calls start. start begins the wait and arranges that Resume
// is called exactly once, from any goroutine, perhaps before start returns. start does nothing else
// with the compound. After Resume the operation runs again and decodes its arguments again.
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

// An attempt, on the goroutine that received the compound, executes at most attemptedOps operations.
// The executor runs the others, because client addresses take turns there. Otherwise the peers of
// one address could keep all receiving goroutines busy with long compounds, and the calls of other
// clients would wait for them. Few compounds of ordinary clients have more operations than this.
const attemptedOps = 8

// leaveAttempt ends the attempt of a compound that has executed attemptedOps operations.
func (k *Compound) leaveAttempt() rpc.Outcome {
	if e := k.Current.Export; e != nil {
		k.on = e.FS.Lane()
	}
	return rpc.WouldBlock(k.on)
}

// giveWay is called between two operations of a compound that runs on the executor. If the
// compound's turn is over (rpc.Call.GiveWay), the compound goes to the end of its client's queue,
// and giveWay returns true.
func (k *Compound) giveWay() (queued bool) {
	if !k.Program.givesWay(k.Call, time.Since(k.since)) {
		return false
	}
	k.Index++
	k.Call.Mark(k.W)
	k.Call.Detach()
	k.Resume(k.on) // from here on the compound may belong to another goroutine
	return true
}
