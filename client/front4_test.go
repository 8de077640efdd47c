package client_test

import (
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A front4 stands before a fake4 and answers some of the COMPOUNDs itself, as its script says.
type front4 struct {
	*fake4
	lock   sync.Mutex
	script func(op wire.OpNum) reaction
	seen   map[wire.OpNum]int
}

// A reaction is what a front4 does with a COMPOUND. The zero value passes it on to the fake4.
type reaction struct {
	status    wire.NFSStat4 // refuses the first operation
	end       bool          // ends the connection
	executed  bool          // with end: after the COMPOUND was executed
	noResults bool          // a reply without results
	silent    bool          // no reply
	restart   bool          // the server forgets everything, and then executes the COMPOUND
}

// newFront4 returns a front4 with a fake4 behind it, and their server.
func newFront4(t testing.TB) (*front4, *testserver.Server) {
	front := &front4{}
	f, server := newFake4Behind(t, front)
	front.fake4 = f
	return front, server
}

// react changes the script. A nil script passes everything on.
func (f *front4) react(script func(op wire.OpNum) reaction) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.script = script
}

// asked returns the number of COMPOUNDs with this operation: the first one, or the one after SEQUENCE.
func (f *front4) asked(op wire.OpNum) int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.seen[op]
}

// nth returns a script that does r with the COMPOUNDs of op that have these numbers, from 1.
func nth(op wire.OpNum, r reaction, numbers ...int) func(wire.OpNum) reaction {
	n := 0
	return func(o wire.OpNum) reaction {
		if o != op {
			return reaction{}
		}
		n++
		for _, number := range numbers {
			if n == number {
				return r
			}
		}
		return reaction{}
	}
}

// leading returns the first operation of a COMPOUND, and the one that matters: the one after SEQUENCE,
// unless SEQUENCE is alone.
func leading(d xdr.Decoder) (first, op wire.OpNum) {
	d.Opaque(wire.NFS4OpaqueLimit)
	d.Uint32()
	n := d.Uint32()
	first = wire.OpNum(d.Uint32())
	if first != wire.OpSequence || n < 2 {
		return first, first
	}
	var s wire.Sequence4Args
	s.Decode(&d)
	return first, wire.OpNum(d.Uint32())
}

func (f *front4) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	first, op := leading(c.Args)
	f.lock.Lock()
	if f.seen == nil {
		f.seen = map[wire.OpNum]int{}
	}
	f.seen[op]++
	var r reaction
	if f.script != nil {
		r = f.script(op)
	}
	f.lock.Unlock()
	switch {
	case r.restart:
		f.forget(true)
	case r.silent:
		return rpc.Dropped
	case r.end && r.executed:
		f.fake4.Serve(c, w)
		return rpc.DropAndEnd
	case r.end:
		return rpc.DropAndEnd
	case r.noResults:
		w.Uint32(uint32(wire.NFS4ErrResource))
		w.Opaque(nil)
		w.Uint32(0)
		return rpc.Done
	case r.status != wire.NFS4OK:
		if op == wire.OpCreateSession {
			f.spend(c.Args, r.status)
		}
		w.Uint32(uint32(r.status))
		w.Opaque(nil)
		w.Uint32(1)
		w.Uint32(uint32(first))
		w.Uint32(uint32(r.status))
		return rpc.Done
	}
	return f.fake4.Serve(c, w)
}

// spend uses up the sequence number of a CREATE_SESSION that is refused (RFC 8881 §18.36.4).
func (f *front4) spend(d xdr.Decoder, status wire.NFSStat4) {
	switch status {
	case wire.NFS4ErrDelay, wire.NFS4ErrStaleClientID, wire.NFS4ErrSeqMisordered:
		return
	}
	d.Opaque(wire.NFS4OpaqueLimit)
	d.Skip(4 + 4 + 4) // minor version, number of operations, CREATE_SESSION
	id := d.Uint64()
	f.fake4.mu.Lock()
	defer f.fake4.mu.Unlock()
	if c := f.clients[id]; c != nil {
		c.sequence++
	}
}
