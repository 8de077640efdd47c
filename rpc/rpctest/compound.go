package rpctest

import (
	"hash/crc32"
	"math"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Operations of COMPOUND. Each is its number, a How, and its arguments; its result
// is its number and what stands here.
const (
	// OpCount has no arguments; its result is an unsigned hyper: how many
	// operations the program has executed so far, this one included.
	OpCount = iota + 1
	// OpRead is unsigned count; its result is opaque<MaxData>, eligible, and shorter
	// than count where no more can be carried back.
	OpRead
	// OpWrite is opaque<MaxData>, eligible; its result is the length and the CRC.
	OpWrite
	// OpStall is unsigned lane: it waits for the lane to be released.
	OpStall
)

// How an operation is executed.
const (
	// Straight: at the first attempt.
	Straight = iota
	// Blocking: a Try answers WouldBlock, after the arguments were decoded,
	// memory was taken and part of a result written.
	Blocking
	// Pending: the call is resumed by another goroutine.
	Pending
)

// MaxCompound is the largest arguments and the largest results without payload, in
// bytes; maxOps is the most operations.
const (
	MaxCompound = 4 + maxOps*opWords + MaxData
	maxOps      = 64
	opWords     = 4 + 4 + 8 // of an operation's arguments or result
)

// An Op is one operation of a COMPOUND.
type Op struct {
	Code, How uint32
	N         uint32 // count or lane
	Data      []byte // of OpWrite
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

// walkCompound looks through the operations as far as they are at hand.
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

// progress is where a COMPOUND goes on.
type progress struct {
	left   uint32
	resume bool // the operation under way was pending
}

// compound runs the operations that are left.
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

// operation runs one operation. again: it is not over, or the compound is.
func (p *Program) operation(c *rpc.Call, d *xdr.Decoder, w *xdr.Writer, at *progress) (out rpc.Outcome, again bool) {
	code, how := d.Uint32(), d.Uint32()
	w.Uint32(code)
	var n uint32
	switch code {
	case OpCount:
		w.Uint64(uint64(p.Steps.Load()) + 1)
	case OpRead:
		// Each of the others behind it still takes its words.
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
