package nfs4

import (
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Judge checks the first file handle of a compound: whether this server has issued it, and whether its
// export serves the caller's address and port and accepts the caller's flavor and identity. If not, the
// server reserves no payload memory and fetches no further data for the compound: it executes only the
// operations that have arrived, and refuses each of them that such a caller may not do. Arguments that
// Judge does not see, such as data, are limited by nfs.Binding4.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if a.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	// If the reply cannot carry the results of all operations, the last ones fail, because each operation
	// checks the room that is left.
	j.Words = max(min(j.Words, j.Room), minReply)
	if j.Object == nil {
		p.judgeByName(a, j)
		return rpc.Done
	}
	o, err := p.exports.Find(j.Object)
	if err != nil || !o.Export.Serves(a.Conn, &a.Cred) {
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	takes := o.Export.Admits(a.Conn, &a.Cred) && !o.Export.Refuses(&a.Cred)
	j.Known = takes && p.exports.Knows(o, a.Conn, &a.Cred)
	if !takes || p.exports.Delays(o.Export, &a.Cred) {
		// PUTFH will tell the client the reason.
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// judgeByName limits the memory and the length of a compound that does not begin with a file handle, if
// the peer has not yet sent a genuine handle of this server. Clients read and write by handle, so they
// lose nothing.
func (p *Program) judgeByName(a *rpc.Arrived, j *rpc.Judgement) {
	if a.Conn.Known() {
		return
	}
	j.Payload = min(j.Payload, nameless)
	beside := 0
	for _, item := range a.Placed {
		beside += int(item.Length)
	}
	if a.MessageLen+beside > nameless {
		// The transport does not receive the rest of the compound. Serve executes the operations
		// that have arrived, and ends the compound where the missing part begins.
		j.Early, j.Payload = true, 0
	}
}

// nameless is the limit of judgeByName for the payload memory and for the message, in bytes.
const nameless = 64 << 10

// minReply is the size, in bytes, of a reply with the longest tag and one operation that
// failed for lack of room.
const minReply = 4 + 4 + maxTag + 4 + 8

// Serve runs NULL or a COMPOUND.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	k, _ := c.Progress.(*Compound)
	if k == nil {
		k = p.compounds.Get().(*Compound)
		switch k.decodeHead(p, c, w) {
		case wire.NFS4OK:
			c.Progress = k
		case wire.NFS4ErrBadXDR:
			k.recycle()
			return rpc.GarbageArgs
		default:
			k.recycle()
			return rpc.Done
		}
	}
	if k.Op.Try = c.Try; !c.Try {
		k.since = time.Now()
	}
	out, over := k.run()
	if over {
		k.recycle()
	}
	return out
}

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
		c.Conn.Notes(k.Minor)
	}
	k.statusAt = w.Len()
	w.Uint32(uint32(s))
	w.Opaque(tag)
	k.countAt = w.Len()
	w.Uint32(0)
	k.Op.Cred, k.Cred = &k.Cred, vfs.Cred{UID: rpc.NobodyID, GID: rpc.NobodyID} // until identify
	return s
}

// maxTag is the maximum length of a compound's tag, in bytes.
const maxTag = 1024

// run executes operations from k.Index on, until one fails, one has to wait, or the last one has finished.
// The second result is false if the compound will continue later.
func (k *Compound) run() (rpc.Outcome, bool) {
	k.broughtBy = 0 // attributes found before the wait may be old
	for ; k.Index < k.Count; k.Index++ {
		k.Call.Mark(k.W)
		if k.Op.Try && k.Index == attemptedOps {
			if e := k.Current.Export; e != nil {
				k.on = e.FS.Lane()
			}
			return rpc.WouldBlock(k.on), false
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
			k.Status, k.reserved = s, 0
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

// An attempt, on the goroutine that received the compound, executes at most attemptedOps operations. The
// executor, where client addresses take turns, runs the others. Otherwise the peers of one address could
// keep all receiving goroutines busy with long compounds. Few compounds of ordinary clients are longer.
const attemptedOps = 8

// turnOver reports whether the compound's turn is over (rpc.Call.GiveWay).
func (k *Compound) turnOver() bool { return k.Program.givesWay(k.Call, time.Since(k.since)) }

// overdue reports, within a long operation on the executor, whether the operation should stop: the turn is over,
// or the connection has ended. Minor.Before then decides whether it goes on.
func (k *Compound) overdue() bool { return k.Call.Conn.Gone() || k.turnOver() }

// giveWay is called between two operations of a compound on the executor. If the compound's turn is over, it goes to
// the end of its client's queue, and giveWay returns true.
func (k *Compound) giveWay() (queued bool) {
	if !k.turnOver() {
		return false
	}
	k.Index++
	k.Call.Mark(k.W)
	k.Call.Detach()
	k.Resume(k.on) // from here on the compound may belong to another goroutine
	return true
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

func (m *minor) find(n wire.OpNum) *Operation {
	if n < 0 || n > lastOperation {
		return nil
	}
	return m.operations[n]
}

// runAndWrite runs op and writes its result. If op is nil, it writes the status s.
func (k *Compound) runAndWrite(op *Operation, s Status) Status {
	k.W.Uint32(uint32(k.Number))
	at := k.W.Len()
	k.W.Uint32(0)
	k.running = running{}
	if op != nil {
		k.begins(op)
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
	k.account(op, s)
	if s != wire.NFS4OK || k.Call.Traced() {
		k.tellEnd(s)
	}
	k.W.PatchUint32(at, uint32(s))
	return s
}

func (c *counters) count(k *Compound, s Status) {
	if s == wire.NFS4OK {
		c.done[k.Call.Conn.ID%stripes].n[k.Number].Add(1)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[failure{k.Number, s}]++
}

// WithArgs returns the Operation.Run of an operation with arguments: it decodes them and calls run. The
// arguments are valid until run returns.
func WithArgs[A any, P interface {
	*A
	Decode(d *xdr.Decoder)
}](run func(k *Compound, args P) Status) func(k *Compound) Status {
	return func(k *Compound) Status {
		var args P
		at := 0
		for ; at < len(k.args); at++ {
			if args, _ = k.args[at].(P); args != nil {
				break
			}
		}
		if args == nil {
			args, k.args = new(A), append(k.args, nil)
		}
		k.args[at] = nil // if run panics, these arguments are not used again
		s := wire.NFS4ErrBadXDR
		if args.Decode(k.Args); k.Decoded() {
			s = run(k, args)
		}
		*args = *new(A)
		k.args[at] = args
		return s
	}
}

// Decoded reports whether everything so far could be decoded.
func (k *Compound) Decoded() bool { return k.Args.Err() == nil }

// Tail returns the number of bytes to keep free after a result. If another operation follows,
// its result needs at least a number and a status.
func (k *Compound) Tail() int {
	if k.Index+1 < k.Count {
		return 8
	}
	return 0
}

// exceeded checks that the reply so far fits into the limits of the transport and of the session. If not,
// it returns the status that replaces the last result. For an operation with Operation.Once, room has
// checked this before.
func (k *Compound) exceeded() Status {
	if k.W.Overflow() || k.W.Available() < k.Tail() {
		return k.tooBig()
	}
	if left, or := k.sessionLeft(); left < k.Tail() {
		return or
	}
	return wire.NFS4OK
}

// sessionLeft returns Limiter.Left, or the largest number if the session sets no limit.
func (k *Compound) sessionLeft() (n int, or Status) {
	if l, ok := k.Session.(Limiter); ok {
		return l.Left(k)
	}
	return math.MaxInt, wire.NFS4ErrRepTooBig
}

// room checks that a result of n bytes, without its status, fits into the reply. It returns
// NFS4_OK, or the status to answer instead of running the operation.
func (k *Compound) room(n int) Status {
	n += k.Tail()
	if left, or := k.sessionLeft(); left < n {
		return or
	}
	if k.Call.WordsRoom(k.W) < n {
		return k.tooBig()
	}
	return wire.NFS4OK
}

// Room returns the number of bytes by which the reply may still grow, without directly placed data.
func (k *Compound) Room() int {
	left, _ := k.sessionLeft()
	return max(min(k.Call.WordsRoom(k.W), left)-k.Tail(), 0)
}

// tooBig returns the status for a reply that does not fit. If the session's limit is lower
// than the transport's, it is the session's status.
func (k *Compound) tooBig() Status {
	if k.Minor == 0 {
		return wire.NFS4ErrResource
	}
	if left, or := k.sessionLeft(); left <= k.Call.WordsRoom(k.W) {
		return or
	}
	return wire.NFS4ErrRepTooBig
}

// PayloadRoom returns the maximum length, in bytes, of the next result that may be placed directly: the
// size of its Write chunk or, without one, the room left in the reply. rest is the number of bytes of XDR
// that go with it.
func (k *Compound) PayloadRoom(rest int) int {
	rest += k.Tail()
	left, _ := k.sessionLeft()
	return min(k.Call.ResultRoom(k.W, rest), max(left-rest, 0))
}

func (k *Compound) ended() rpc.Outcome {
	k.minor.After(k)
	if k.Client != nil {
		k.meet()
	}
	return rpc.Done // also after a failure, because failures are counted by operation
}

// meet marks the connection of a client's session as that of a real client (rpc.Conn.MarkKnown), if an
// export serves the client and accepts its flavor. Judge does so only when a compound begins with a file
// handle, as no compound that renews a lease does. The export need not accept RPCSEC_GSS, because a client
// may renew its lease under another service than its users' calls.
func (k *Compound) meet() {
	c, cred := k.Call.Conn, &k.Call.Cred
	if !c.Known() && slices.ContainsFunc(k.Program.exports.All(), func(e *export.Export) bool {
		return e.Serves(c, cred) && (cred.Flavor == rpc.AuthGSS || e.Admits(c, cred))
	}) {
		c.MarkKnown()
	}
}

// recycle returns the compound to the pool. It keeps the memory for arguments and for the names of
// owners and groups.
func (k *Compound) recycle() {
	k.Call.Progress = nil
	p, owner, group := k.Program, k.facts.owner[:0], k.facts.group[:0]
	*k = Compound{scratch: scratch{facts: facts{owner: owner, group: group}}, args: k.args}
	p.compounds.Put(k)
}
