package client

import (
	"cmp"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An Op is one operation of a COMPOUND, and where its result is stored.
type Op struct {
	Number nfs4wire.OpNum
	// Args are the operation's arguments, such as *nfs4wire.Read4Args, or nil if it has
	// none.
	Args Encoder
	// Res receives the result with its status, such as *nfs4wire.Read4Res. It is nil if the
	// result of a success is a status only.
	Res Decoder
}

// An Encoder holds the arguments of an operation. The types of nfs4wire implement it.
type Encoder interface{ Encode(w *xdr.Writer) }

// A Decoder receives the result of an operation. The types of nfs4wire implement it.
type Decoder interface{ Decode(d *xdr.Decoder) }

// An OpError means that the server executed an operation and answered with a status other than
// NFS4_OK. If the server refused the whole COMPOUND, Op is 0.
type OpError struct {
	Op     nfs4wire.OpNum
	Status nfs4wire.NFSStat4
}

func (e *OpError) Error() string {
	if e.Op == 0 {
		return fmt.Sprintf("client: COMPOUND: %v", e.Status)
	}
	return fmt.Sprintf("client: %v: %v", e.Op, e.Status)
}

// A Compound is one request on a session: SEQUENCE, which the session adds, and Ops. The caller may
// start it again after Done, and within Done too; starting it allocates no memory. The caller must
// not change its fields between Session.Start and Done.
type Compound struct {
	Ops []Op
	// Cache asks the server to keep the reply. Set it for operations that must not be
	// executed twice, because the session can then safely send the request again.
	Cache bool
	// Sinks are memory where the transport may place the data of READs and the texts of
	// READLINKs: see rpc.Exchange.
	Sinks [][]byte
	// MaxArgs is an upper bound for the arguments of Ops without eligible data, and MaxResults for
	// their results, in bytes. 0 means 4096 for MaxArgs, and the bound in compoundBinding for
	// MaxResults.
	MaxArgs, MaxResults int
	// Done is called once, when the outcome is known. Memory that Ops' results refer to is
	// valid only during Done. Done must not block.
	Done func(c *Compound)

	// Err and Executed are set before Done. Executed is how many of Ops the server executed. If one
	// of Ops failed, it is the last executed one, and Err is an *OpError.
	Err      error
	Executed int

	x       rpc.Exchange
	session *Session
	in      *compoundList // the list of the session that contains the compound, or nil
	serial  uint64        // counts how often the compound was passed to the transport
	flight
}

// flight is the session's state of a started compound. slot is nil until the compound gets a slot.
type flight struct {
	queue.Links[Compound] // in the list Compound.in
	slot                  *slot
	link                  *link
	// doubtful is true if the compound was sent, and the connection ended before the reply came.
	// So the server may have executed it.
	doubtful bool
	// conn is the connection of link on which the compound was sent. sent is true while the
	// transport has the call. begun is true once the transport's Start has returned, so that the
	// call can be cancelled. cancelled is the error with which the caller cancelled the compound, or
	// nil; once it is set, the compound is not sent again.
	conn        *Conn
	sent, begun bool
	cancelled   error
	// settle is true if this is the SEQUENCE of Session.settle, which makes the slot of a request
	// that was given up usable again.
	settle bool
	// losses counts the connections in a row that were lost with the request: see lossLocked.
	// answeredBefore is Conn.answered when the request was sent, and newest is the Conn.number of the
	// newest connection when the last one was lost.
	losses                 int
	answeredBefore, newest uint64
	// long is the error of a request that is longer than the server takes, or nil.
	long     error
	sequence nfs4wire.Sequence4Args
	res      nfs4wire.Sequence4Res
}

// defaultMaxArgs is the upper bound, in bytes, for the arguments of a Compound whose MaxArgs is 0.
const defaultMaxArgs = 4096

// sequenceRoom is the largest length of the part of a request before the caller's operations, in
// bytes: a tag, the minor version, a count, and SEQUENCE.
const sequenceRoom = 4 + 4 + 4 + 4 + nfs4wire.Sequence4ArgsMaxSize

// sequenceResult is the largest length of the part of a reply before the results of the caller's
// operations, in bytes: a status, a tag, a count and SEQUENCE.
const sequenceResult = 4 + 4 + 4 + 4 + nfs4wire.Sequence4ResMaxSize

// prepare sets up the RPC exchange of the request.
func (c *Compound) prepare(s *Session) {
	c.session = s
	c.Err, c.Executed = nil, 0
	x := &c.x
	x.Program, x.Version, x.Procedure = nfs4wire.Program, nfs4wire.Version, nfs4wire.ProcCompound
	x.Cred, x.Binding = s.cfg.Cred, compoundBinding
	x.MaxArgs = sequenceRoom + cmp.Or(c.MaxArgs, defaultMaxArgs)
	x.MaxResults = 0
	if c.MaxResults > 0 {
		x.MaxResults = sequenceResult + c.MaxResults
	}
	x.Sinks, x.Locate = c.Sinks, nil
	if len(c.Sinks) > 0 {
		x.Locate = LocateRead4Data
	}
	if x.Args == nil { // only once in a Compound's life
		x.Args = c.writeRequest
		x.Done = c.done
	}
}

// writeRequest encodes the COMPOUND: SEQUENCE, then Ops. It fails if the request is longer than the
// server takes.
func (c *Compound) writeRequest(w *xdr.Writer) {
	putCompound(w, c.session.cfg.Minor, &c.sequence, c.Ops)
	if n, most := w.StreamLen(), c.slot.table.longest; most > 0 && n > most {
		c.long = tooLong(n, most)
		w.Fail() // the transport does not send the call
	}
}

// putCompound encodes a COMPOUND. sequence is nil if it has no SEQUENCE.
func putCompound(w *xdr.Writer, minor uint32, sequence *nfs4wire.Sequence4Args, ops []Op) {
	w.Uint32(0) // tag
	w.Uint32(minor)
	if sequence == nil {
		w.Uint32(uint32(len(ops)))
	} else {
		w.Uint32(uint32(1 + len(ops)))
		w.Uint32(uint32(nfs4wire.OpSequence))
		sequence.Encode(w)
	}
	for i := range ops {
		w.Uint32(uint32(ops[i].Number))
		if ops[i].Args != nil {
			ops[i].Args.Encode(w)
		}
	}
}

// beginResults reads the start of a COMPOUND's reply: the status, the tag, and the number n of
// results.
func beginResults(d *xdr.Decoder) (n uint32, status nfs4wire.NFSStat4) {
	status = nfs4wire.NFSStat4(d.Uint32())
	d.Opaque(nfs4wire.NFS4OpaqueLimit) // tag
	return d.Uint32(), status
}

// readOps reads n results of a COMPOUND whose operations are ops. The argument status is the
// status of the whole COMPOUND. It returns the number of executed operations. If an operation
// failed, the error is an *OpError.
func readOps(d *xdr.Decoder, ops []Op, n uint32, status nfs4wire.NFSStat4) (executed int, err error) {
	if int64(n) > int64(len(ops)) {
		return 0, fmt.Errorf("%w: %d results of %d operations", rpc.ErrBadReply, n, len(ops))
	}
	for i := range ops[:n] {
		failed, err := readOp(d, &ops[i])
		if err != nil {
			return i + 1, err
		}
		if (failed != nfs4wire.NFS4OK) != (i == int(n)-1 && status != nfs4wire.NFS4OK) || failed != nfs4wire.NFS4OK && failed != status {
			return i + 1, fmt.Errorf("%w: %v of %d operations ended with %v, the compound with %v", rpc.ErrBadReply, ops[i].Number, n, failed, status)
		}
	}
	switch {
	case status == nfs4wire.NFS4OK && int(n) < len(ops):
		return int(n), fmt.Errorf("%w: %d results of %d operations, and NFS4_OK", rpc.ErrBadReply, n, len(ops))
	case status != nfs4wire.NFS4OK && n == 0:
		return 0, &OpError{0, status}
	case status != nfs4wire.NFS4OK:
		return int(n), &OpError{ops[n-1].Number, status}
	}
	return int(n), nil
}

// readOp reads one result. If the server does not know the operation, the result is that of
// OP_ILLEGAL (RFC 8881 §18.52).
func readOp(d *xdr.Decoder, op *Op) (status nfs4wire.NFSStat4, err error) {
	number := nfs4wire.OpNum(d.Uint32())
	peek := *d
	status = nfs4wire.NFSStat4(peek.Uint32())
	switch {
	case peek.Err() == nil && number == nfs4wire.OpIllegal && status == nfs4wire.NFS4ErrOpIllegal,
		peek.Err() == nil && number == op.Number && op.Res == nil:
		*d = peek
	case peek.Err() == nil && number == op.Number:
		op.Res.Decode(d)
	case peek.Err() == nil:
		return status, fmt.Errorf("%w: the result of %v is %v's", rpc.ErrBadReply, op.Number, number)
	}
	if err := cmp.Or(d.Err(), peek.Err()); err != nil {
		return status, fmt.Errorf("%w: %v: %w", rpc.ErrBadReply, op.Number, err)
	}
	return status, nil
}

// LocateRead4Data finds the data of the first READ in the results of a COMPOUND: see
// rpc.Exchange.Locate. It finds the data only if each operation before the READ is SEQUENCE or
// LOOKUP, or sets the current or the saved file handle.
func LocateRead4Data(results xdr.Decoder) (position, length int) {
	n, _ := beginResults(&results)
	for ; n > 0 && results.Err() == nil; n-- {
		op, status := nfs4wire.OpNum(results.Uint32()), nfs4wire.NFSStat4(results.Uint32())
		if status != nfs4wire.NFS4OK {
			return 0, 0
		}
		switch op {
		case nfs4wire.OpSequence:
			results.Skip(nfs4wire.Sequence4ResOKMaxSize)
		case nfs4wire.OpPutFH, nfs4wire.OpPutRootFH, nfs4wire.OpSaveFH, nfs4wire.OpRestoreFH, nfs4wire.OpLookup:
		case nfs4wire.OpRead:
			results.Skip(4) // eof
			length = int(results.Uint32())
			if results.Err() != nil {
				return 0, 0
			}
			return results.Position(), length
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// A compoundList is a queue of compounds. The lock of their session guards it.
type compoundList struct {
	queue.List[Compound, *Compound]
}

func (l *compoundList) push(c *Compound) {
	c.in = l
	l.Add(c)
}

// pop takes the first compound out of the list. It returns nil if there is none.
func (l *compoundList) pop() *Compound {
	c := l.First
	if c != nil {
		l.remove(c)
	}
	return c
}

func (l *compoundList) remove(c *Compound) {
	l.Remove(c)
	c.in = nil
}
