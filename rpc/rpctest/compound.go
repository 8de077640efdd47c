package rpctest

import (
	"hash/crc32"
	"math"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Operations of COMPOUND. An operation on the wire consists of three parts: its number, which is
// one of these constants; the value of Op.How; and its arguments. Its result consists of its number
// and the data described below.
const (
	// OpCount has no arguments. Its result is an unsigned hyper: the number of operations that the
	// program has executed so far, this OpCount included.
	OpCount = iota + 1
	// OpRead has the argument unsigned count. Its result is opaque<MaxData>, which is DDP-eligible
	// (eligible for direct data placement). The result is shorter than count if the reply has less
	// space.
	OpRead
	// OpWrite has the argument opaque<MaxData>, which is DDP-eligible. Its result is the length and
	// the CRC of the data.
	OpWrite
	// OpStall has the argument unsigned lane. It waits until the test releases the lane
	// (Program.Release). Its result has no data.
	OpStall
)

// Values of Op.How, which tells how the program executes an operation.
const (
	// Straight means that the program executes the operation when it first reaches it.
	Straight = iota
	// Blocking means that a Serve with Call.Try decodes the arguments, takes memory, writes the
	// result, and then returns WouldBlock. The Serve without Try executes the operation.
	Blocking
	// Pending means that Serve returns Outcome.Pending before the operation, and another goroutine
	// continues the call with Call.Resume.
	Pending
)

// MaxCompound is the largest size of the arguments, and of the results without payload, in bytes.
// maxOps is the largest number of operations of one COMPOUND.
const (
	MaxCompound = 4 + maxOps*opWords + MaxData
	maxOps      = 64
	opWords     = 4 + 4 + 8 // the size of an operation's arguments or result without payload, in bytes
)

// An Op is one operation of a COMPOUND.
type Op struct {
	Code, How uint32
	N         uint32 // the count of OpRead, or the lane of OpStall
	Data      []byte // the data of OpWrite
}

// PutCompound writes the arguments of COMPOUND.
func PutCompound(w *xdr.Writer, ops []Op) {
	w.Uint32(uint32(len(ops)))
	for _, op := range ops {
		w.Uint32(op.Code)
		w.Uint32(op.How)
		switch op.Code {
		case OpRead, OpStall:
			w.Uint32(op.N)
		case OpWrite:
			w.Payload(op.Data, true, nil)
		}
	}
}

// walkCompound is Procedure.Walk of COMPOUND. It reads the operations that have arrived.
func walkCompound(args *xdr.Decoder, s *rpc.Shape) {
	n := args.Uint32()
	if n > maxOps {
		args.Fail(xdr.ErrTooLong)
		return
	}
	for range n {
		code := args.Uint32()
		args.Uint32()
		switch code {
		case OpRead:
			s.Payload = min(s.Payload+size(args.Uint32()), MaxData)
		case OpWrite:
			s.Item(args)
		case OpStall:
			args.Uint32()
		}
	}
	s.Words = 4 + int(n)*opWords
}

// progress is the state of an interrupted COMPOUND. The field left is the number of operations that
// are not executed yet.
type progress struct {
	left   uint32
	resume bool // the next operation has already returned Pending, and is executed now
}

// compound executes the operations that are not executed yet.
func (p *Program) compound(c *rpc.Call, d *xdr.Decoder, w *xdr.Writer) rpc.Outcome {
	at, begun := c.Progress.(*progress)
	if !begun {
		at = &progress{left: d.Uint32()}
		if at.left > maxOps {
			return rpc.GarbageArgs
		}
		w.Uint32(at.left)
		c.Progress = at
		c.Mark(w)
	}
	for at.left > 0 {
		out, again := p.operation(c, d, w, at)
		if again {
			return out
		}
		if d.Err() != nil {
			return rpc.GarbageArgs
		}
		p.Steps.Add(1)
		at.left--
		at.resume = false
		c.Mark(w)
	}
	return rpc.Done
}

// operation executes one operation. If again is true, compound has to return out, because the
// operation has to continue later, or is invalid.
func (p *Program) operation(c *rpc.Call, d *xdr.Decoder, w *xdr.Writer, at *progress) (out rpc.Outcome, again bool) {
	code, how := d.Uint32(), d.Uint32()
	w.Uint32(code)
	var n uint32
	switch code {
	case OpCount:
		w.Uint64(uint64(p.Steps.Load()) + 1)
	case OpRead:
		// Leave space for the results of the operations after this one.
		n = min(d.Uint32(), MaxData, uint32(min(c.ResultRoom(w, 4+int(at.left-1)*opWords), math.MaxInt32)))
		payload(c, w, int(n))
	case OpWrite:
		data := d.EligibleOpaque(MaxData)
		w.Uint32(uint32(len(data)))
		w.Uint32(crc32.ChecksumIEEE(data))
	case OpStall:
		n = d.Uint32()
		if c.Try {
			return rpc.WouldBlock(n), true
		}
		g := p.gate(n)
		g.arrived <- struct{}{}
		<-g.open
	default:
		return rpc.GarbageArgs, true
	}
	switch {
	case how == Blocking && c.Try:
		p.Tried.Add(1)
		return rpc.WouldBlock(n), true
	case how == Pending && !at.resume:
		at.resume = true
		c.Detach()
		p.later.Add(1)
		go func() {
			defer p.later.Done()
			c.Resume(n)
		}()
		return rpc.Outcome{Pending: true}, true
	}
	return rpc.Done, false
}
