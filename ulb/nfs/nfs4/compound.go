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

// An Object is what a file handle of a compound names. The zero value is none.
type Object struct {
	Export *export.Export
	Handle vfs.Handle
}

// IsSet says that there is a file handle.
func (o *Object) IsSet() bool { return o.Export != nil }

// A Compound is one COMPOUND on its way through its operations. It is pooled: what is
// passed to a file system by pointer lives here, so that an operation allocates nothing.
// It stays the same while a compound waits; what was decoded by an earlier operation
// does not.
type Compound struct {
	Program *Program
	Call    *rpc.Call
	Args    *xdr.Decoder
	W       *xdr.Writer
	// Minor is the minor version that the client speaks: 0, 1 or 2.
	Minor uint32
	// Index is the operation that runs, of Count; Number is which it is.
	Index, Count int
	Number       wire.OpNum

	// Current and Saved are what the file handles name.
	Current, Saved Object
	// StateID is the current stateid, and SavedStateID the one that goes with the
	// saved file handle (RFC 8881 §16.2.3.1.2). HasStateID says that there is one.
	StateID, SavedStateID       wire.StateID4
	HasStateID, HasSavedStateID bool

	// Client is who SEQUENCE said it is; nil in minor version 0.
	Client *state.Client
	// Session is the minor version's own.
	Session any
	// Replay is what a Replayed compound is answered with.
	Replay *rpc.Kept
	// Status is that of the last operation that has ended.
	Status Status

	// Op and Cred are for calls of Current.Export.FS, while an operation runs that
	// has the current handle.
	Op   vfs.Op
	Cred vfs.Cred
	// Attr is for an operation's use.
	Attr vfs.Attr

	minor    *minor
	keepBody bool
	lane     any       // with which an operation is Blocked
	on       any       // with which the compound may stall that may wait
	since    time.Time // when it last began to be executed without Try
	start    func()
	tagged   bool // the tag is UTF-8
	inside   bool // an operation runs
	// maintains: what follows on the current object is the client's own maintenance.
	maintains bool
	// unsuited: the export of the current object does not take the caller's flavor.
	unsuited bool
	// replaced: an export was replaced since an object of it was put.
	replaced bool
	// given is what follows the operation's number, in minor version 0.
	given []byte
	// looked is what was looked up of the caller. postponed is why an operation cannot be
	// carried out that has to count for its owner all the same (minor version 0).
	looked    export.Looked
	postponed Status
	sealed    [export.MaxSealed]byte
	held      xdr.Releaser
	view      pseudo.View
	facts     facts
	plans     *plans
	// uses are the states by which the operation uses the current and the saved object.
	uses [2]useOfState
	data [1][]byte // of a WRITE
	// lent is what is left of memory that was not reserved, of lentInAll bytes.
	lent      []byte
	lentInAll int
	// broughtBy is the index after that of the operation that brought Attr of the
	// current object.
	broughtBy int
	// dirChange is the change of the directory that child found a name in.
	dirChange uint64
	// assignment is what a SETATTR, a CREATE or an OPEN sets.
	assignment assignment
	list       lister
	scratch
}

// brought says that the operation left the attributes of the current object in k.Attr. They
// count where it waited for nothing: else they may be older than what others were answered
// meanwhile.
func (k *Compound) brought() {
	if k.Op.Try {
		k.broughtBy = k.Index + 1
	}
}

// Brought says that k.Attr are the attributes of the current object, as the operation
// before this one found them.
func (k *Compound) Brought() bool { return k.broughtBy > 0 && k.broughtBy == k.Index }

// KeepBody says that the result has a body although the status is not NFS4_OK.
func (k *Compound) KeepBody() { k.keepBody = true }

// FS is the file system of the current file handle.
func (k *Compound) FS() vfs.FileSystem {
	return k.Program.names.FileSystem(k.Current.Export, k.Call.Conn)
}

// SetCurrent makes o what the current file handle names. The current stateid belongs to
// the handle before, and is forgotten (RFC 8881 §16.2.3.1.2).
func (k *Compound) SetCurrent(o Object) {
	k.Current = o
	k.HasStateID = false
}

// SetStateID makes id the current stateid.
func (k *Compound) SetStateID(id wire.StateID4) { k.StateID, k.HasStateID = id, true }

// Block is the status of an operation that a file system could not attempt.
func (k *Compound) Block(lane any) Status {
	k.lane = lane
	return Blocked
}

// Failed is the status of an operation that err ended, Blocked included. err is not nil.
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

// Decoded says that the arguments could be decoded; where they could not, the
// operation's status is NFS4ERR_BADXDR.
func (k *Compound) Decoded() bool { return k.Args.Err() == nil }

// begin reads what stands before the operations, and leaves room for what stands before
// their results.
func (k *Compound) begin(p *Program, c *rpc.Call, w *xdr.Writer) {
	k.Program, k.Call, k.Args, k.W = p, c, &c.Args, w
	tag := k.Args.Opaque(maxTag)
	k.Minor = k.Args.Uint32()
	n := k.Args.Uint32()
	k.Count = int(min(n, 1<<30))
	k.tagged = utf8.Valid(tag)
	k.Status = wire.NFS4OK
	w.Uint32(uint32(wire.NFS4OK))
	k.statusAt = w.Len() - 4
	w.Opaque(tag)
	w.Uint32(0)
	k.countAt = w.Len() - 4
	k.Op.Cred = &k.Cred
}

// reset forgets all that belongs to one compound.
func (k *Compound) reset() {
	owner, group := k.facts.owner[:0], k.facts.group[:0]
	*k = Compound{plans: k.plans}
	k.facts.owner, k.facts.group = owner, group
}

// scratch is where a compound's results stand in its writer, and what it did not decode.
type scratch struct {
	statusAt, countAt int
	entered           [2]*export.Export
}

// run executes operations from k.Index on, until one fails, would have to wait, or the
// last has ended. It is false where the compound goes on later.
func (k *Compound) run() (rpc.Outcome, bool) {
	k.broughtBy = 0 // what an operation found before the compound waited may be old
	for ; k.Index < k.Count; k.Index++ {
		k.Call.Mark(k.W)
		switch s := k.step(); s {
		case Blocked:
			k.on = k.lane
			return rpc.WouldBlock(k.lane), false
		case Waiting:
			start := k.start
			k.start = nil
			k.Call.Detach()
			start() // from here on another goroutine may have the compound
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
				return k.ended(), true // which is no answer; but the request is over
			}
			k.W.PatchUint32(k.countAt, uint32(k.Index+1))
			if s != wire.NFS4OK {
				k.W.PatchUint32(k.statusAt, uint32(s))
				return k.ended(), true
			}
			if !k.Op.Try && k.Index+1 < k.Count && time.Since(k.since) > k.Program.turn {
				k.Index++
				k.Call.Mark(k.W)
				k.Call.Detach()
				k.Resume(k.on) // and from here on it may be with another goroutine
				return rpc.Outcome{Pending: true}, false
			}
		}
	}
	return k.ended(), true
}

// usualTurn is after what time a compound that occupies a goroutine of the executor lets other
// calls go first, between two of its operations: there are some that take long each.
const usualTurn = 100 * time.Millisecond

func (k *Compound) ended() rpc.Outcome {
	k.minor.After(k)
	if k.Client != nil {
		k.meet()
	}
	return rpc.Done // what failed is counted by operation
}

// meet makes the connection of a client's session a known one, where an export serves
// that client and takes its flavor: a connection that only renews a lease puts no handle. A
// client renews its lease under another service of RPCSEC_GSS than its users' calls have.
func (k *Compound) meet() {
	c, cred := k.Call.Conn, &k.Call.Cred
	if !c.Known() && slices.ContainsFunc(k.Program.exports.All(), func(e *export.Export) bool {
		return e.Serves(c) && (cred.Flavor == rpc.AuthGSS || e.Admits(c, cred))
	}) {
		c.Meet()
	}
}

// Served says whether an export serves the caller. One that none serves has no use for
// being a client, nor for what clients have, which is others' as well: it is Denied that.
func (k *Compound) Served() bool {
	c := k.Call.Conn
	return c.Known() || slices.ContainsFunc(k.Program.exports.All(), func(e *export.Export) bool { return e.Serves(c) })
}

// stranger tells of a caller that no export serves: a mount is refused by that.
func (k *Compound) stranger(answer rpc.AuthStat) {
	r := export.Refusal{Client: k.Call.Conn.Peer, Status: answer, Reason: export.Stranger}
	for _, e := range k.Program.exports.All() {
		if e.ServesAddr(r.Client.Addr()) {
			r.Export, r.Reason = e, export.UnprivilegedPort
		}
	}
	k.Program.exports.Refused(&r)
}

// step executes one operation and writes its result. Where it ends with a status below
// 0, the next attempt takes back what it wrote.
func (k *Compound) step() Status {
	k.Number = wire.OpNum(k.Args.Uint32())
	if k.Minor == 0 {
		k.given = k.Args.Rest()
	}
	if k.Index == nfs.MaxOperations && k.Minor == 0 {
		// Later minor versions are told the limit when their session is made.
		return k.put(nil, wire.NFS4ErrResource)
	}
	if !k.Decoded() {
		// There is no operation: the compound says that it has more than are there.
		k.Number = wire.OpIllegal
		return k.put(nil, wire.NFS4ErrBadXDR)
	}
	op := k.minor.find(k.Number)
	if op == nil {
		if !legal(k.Number, k.Minor) {
			k.Number = wire.OpIllegal
			return k.put(nil, wire.NFS4ErrOpIllegal)
		}
		if s := k.minor.Before(k, &Operation{Number: k.Number}); s != wire.NFS4OK {
			return k.put(nil, s)
		}
		return k.put(nil, wire.NFS4ErrNotSupp)
	}
	if s := k.minor.Before(k, op); s != wire.NFS4OK {
		return k.put(nil, s)
	}
	return k.put(op, wire.NFS4OK)
}

// put writes the result of an operation: that of running op, or s where op is nil.
func (k *Compound) put(op *Operation, s Status) Status {
	k.W.Uint32(uint32(k.Number))
	at := k.W.Len()
	k.W.Uint32(0)
	k.keepBody, k.uses = false, [2]useOfState{}
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
		k.W.Uint32(0) // whose result names what was set, however it ended
	}
	if s == wire.NFS4ErrBadXDR && k.Call.Early && k.Number != wire.OpIllegal {
		s = k.notBrought()
	}
	k.Program.counters.count(k, s)
	k.W.PatchUint32(at, uint32(s))
	return s
}

// notBrought is the status of an operation whose arguments are not here because the
// compound is longer than what is brought for this peer (see judgeByName): there is
// nothing wrong with them.
func (k *Compound) notBrought() Status {
	if k.Minor == 0 {
		return wire.NFS4ErrResource
	}
	return wire.NFS4ErrReqTooBig
}

// perform runs op where all that it needs is there.
func (k *Compound) perform(op *Operation) (s Status) {
	if op.Once {
		if s := k.room(op.Most); s != wire.NFS4OK {
			return s
		}
	}
	switch {
	case op.Handle && !k.Current.IsSet():
		return wire.NFS4ErrNoFileHandle
	case op.Saved && !k.Saved.IsSet():
		return wire.NFS4ErrNoFileHandle
	case op.Changes && k.Current.IsSet() && k.Current.Export.ReadOnly:
		return wire.NFS4ErrROFS
	}
	defer k.leave()
	k.postponed = wire.NFS4OK
	if op.Handle {
		if s := k.ready(op); s != wire.NFS4OK {
			if k.Minor != 0 || !op.counts() || !counts(s) {
				return s
			}
			k.postponed = s
		}
	}
	if op.Saved {
		if s := k.enter(1, &k.Saved); s != wire.NFS4OK {
			return s
		}
		if s := k.admitSaved(op.Number); s != wire.NFS4OK {
			return s
		}
		if s := k.lookSaved(); s != wire.NFS4OK {
			return s
		}
	}
	k.inside = true
	s = op.Run(k)
	k.inside = false
	if s == wire.NFS4OK && !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	if s == wire.NFS4OK {
		switch n := op.Number; {
		case puts(n):
			if s := k.secure(); s != wire.NFS4OK || n != wire.OpPutFH {
				return s
			}
			return k.present()
		case n == wire.OpLookup, n == wire.OpLookupp:
			return k.arrive()
		}
	}
	return s
}

// ready has all ready that an operation on the current object needs: its export, and who the
// caller is there.
func (k *Compound) ready(op *Operation) Status {
	if s := k.enter(0, &k.Current); s != wire.NFS4OK {
		return s
	}
	if s := k.admit(op.Number); s != wire.NFS4OK {
		return s
	}
	return k.identify(op)
}

// enter enters the export of o, which may have been replaced since the handle was put, or
// be a mount that is asleep.
func (k *Compound) enter(i int, o *Object) Status {
	for !o.Export.Enter(k.Call.Conn) {
		e, err := k.Program.exports.Awake(o.Export, k.Op.Try)
		switch {
		case blocked(err):
			return k.Block(o.Export.FS.Lane())
		case err != nil:
			return StatusOf(err)
		case !e.Serves(k.Call.Conn):
			return wire.NFS4ErrStale
		}
		o.Export, k.replaced = e, true
	}
	k.entered[i] = o.Export
	if lane := o.Export.FS.Lane(); i == 0 && !k.Op.Try && k.on != lane {
		// What stalls here must not hold up those who wait for something else.
		return k.WaitFor(func() { k.Resume(lane) })
	}
	return wire.NFS4OK
}

// leave leaves what was entered, and gives back payload memory that no result took. It
// is deferred: an operation that panics keeps neither, and the compound ends with it.
func (k *Compound) leave() {
	if k.inside {
		k.inside = false
		k.Status = wire.NFS4ErrServerFault
		k.W.Fail() // what stands there is no answer
		k.minor.After(k)
	}
	for i, e := range k.entered {
		if e != nil {
			e.Leave(k.Call.Conn)
			k.entered[i] = nil
		}
	}
	if k.held != nil {
		k.held.Release()
		k.held = nil
	}
}

// WaitFor is the status of an operation that has to wait for something else. start
// begins that, and sees to it that Resume is called once, from any goroutine, perhaps
// before it returns: then the operation is run again, from its arguments on. start is
// called when the operation has returned, and touches the compound for nothing else.
func (k *Compound) WaitFor(start func()) Status {
	k.start = start
	return Waiting
}

// Resume goes on with a compound that waits. lane is with what it may stall, or nil.
func (k *Compound) Resume(lane any) {
	k.on = lane
	k.Call.Resume(lane)
}
