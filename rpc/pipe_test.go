package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// offered is the toy program, which notes whether a call might have a pipe for its result.
// With put, the result is in that pipe.
type offered struct {
	*rpctest.Program
	size  int
	piped bool
	put   bool
}

func (o *offered) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if o.put {
		k := c.Memory.Pipe()
		e := xdr.Eligible{Data: c.Memory.Bytes()[:100], Ref: k, Piped: true}
		e.Encode(w, rpctest.MaxData)
		return rpc.Done
	}
	k := c.ResultPipe(o.size)
	if o.piped = k != nil; o.piped {
		k.Release()
	}
	return o.Program.Serve(c, w)
}

// serve answers a call that has payload memory, on a transport that takes pipes from least
// bytes on.
func (o *offered) serve(t *testing.T, s *rpc.Server, p *mem.Pool, conn *rpc.Conn, m []byte, least int) *rpctest.Call {
	t.Helper()
	share := p.NewShare()
	b, ok := share.TryGet(1 << 20)
	if !ok {
		t.Fatal("no memory")
	}
	defer share.Close()
	defer b.Release()
	call := rpctest.NewCall(conn, m)
	call.Space.Piped = least
	if _, ok := s.Admit(&call.Call); !ok {
		t.Fatal("not admitted")
	}
	call.Memory = b
	s.Serve(&call.Call)
	<-call.Done
	call.Memory = nil
	return call
}

func newOffered(t *testing.T) (*offered, *rpc.Server, *mem.Pool, *rpc.Conn) {
	p, err := mem.NewPool(mem.Config{Ceiling: 16 << 20, Pipes: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s, o := rpc.NewServer(rpc.Config{}), &offered{Program: rpctest.NewProgram(), size: 1000}
	s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
	s.Register(o)
	t.Cleanup(s.Close)
	return o, s, p, s.NewConn(peer, peer, "test", false)
}

// A result is offered a pipe where nothing reads it here: the transport takes pipes for
// as much, the reply is not protected, and it is not kept.
func TestPipesAreForRepliesThatAreNotReadHere(t *testing.T) {
	o, s, p, conn := newOffered(t)
	key := newKey(t, s, conn)
	sealed := func(how uint32) []byte {
		h := rpc.CallHeader{XID: 9, Program: rpctest.Number, Version: 1, Procedure: rpctest.GET}
		h.Cred = rpctest.SealCred(h, how, key)
		args := u32(10)
		if how == rpctest.SealWrap {
			args = rpctest.SealArgs(args, key)
		}
		return rpctest.CallMessage(h, args)
	}
	for _, c := range []struct {
		name  string
		m     []byte
		least int
		piped bool
	}{
		{"as short as may be", rpctest.Message(1, rpctest.GET, u32(10)), 1000, true},
		{"too short", rpctest.Message(2, rpctest.GET, u32(10)), 1001, false},
		{"the transport takes none", rpctest.Message(3, rpctest.GET, u32(10)), 0, false},
		{"kept for its duplicates", rpctest.Message(4, rpctest.FETCH, u32(10)), 1, false},
		{"protected", sealed(rpctest.SealWrap), 1, false},
	} {
		o.piped = false
		if call := o.serve(t, s, p, conn, c.m, c.least); call.End != rpctest.Sent || o.piped != c.piped {
			t.Errorf("%s: end %v, a pipe %v", c.name, call.End, o.piped)
		}
	}
}

// A result in a pipe that comes where it would be read fails the call: what stands in its
// place in memory is no one's to see.
func TestResultsInPipesAreNotReadHere(t *testing.T) {
	o, s, p, conn := newOffered(t)
	key := newKey(t, s, conn)
	h := rpc.CallHeader{XID: 9, Program: rpctest.Number, Version: 1, Procedure: rpctest.GET}
	h.Cred = rpctest.SealCred(h, rpctest.SealWrap, key)
	o.put = true
	kept := rpctest.Message(1, rpctest.FETCH, u32(10))
	o.serve(t, s, p, conn, kept, 1)
	for name, m := range map[string][]byte{
		"protected":             rpctest.CallMessage(h, rpctest.SealArgs(u32(10), key)),
		"kept, asked for again": kept,
	} {
		call := o.serve(t, s, p, conn, m, 1)
		if len(call.Reply) > 40 {
			t.Errorf("%s: it is answered with %x", name, call.Reply)
		}
		if n := p.Stats().InUse; n != 0 {
			t.Errorf("%s: %d bytes are in use", name, n)
		}
	}
}
