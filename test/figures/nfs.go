package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// calls makes NFS calls over one connection, up to depth at a time: each reply starts the next
// call, as in a client that pipelines.
type calls struct {
	k   rpc.Caller
	all []*rpc.Exchange
	turns
}

// turns counts the calls of a run: those still to start, and those under way.
type turns struct {
	over chan struct{} // gets a value when all calls of a run have ended

	mu     sync.Mutex
	left   int // calls to start
	out    int // calls under way
	failed error
}

func newTurns() turns { return turns{over: make(chan struct{}, 1)} }

// run makes n calls and waits until they have ended. The parameter all is the number of exchanges.
// run calls start(i) to start the first call of exchange i; when a call ends, its exchange makes
// the next one.
func (t *turns) run(n, all int, start func(i int)) error {
	first := min(n, all)
	t.mu.Lock()
	t.left, t.out = n-first, first
	t.mu.Unlock()
	for i := range first {
		start(i)
	}
	<-t.over
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (s *stage) newCalls(k rpc.Caller, depth int) *calls {
	c := &calls{k: k, turns: newTurns()}
	for range depth {
		c.all = append(c.all, &rpc.Exchange{Program: wire.Program, Version: wire.Version, Cred: s.cred})
	}
	return c
}

// of prepares every exchange for one procedure and returns a function that makes n calls. If sink
// is not nil, sink(i) is the memory into which the transport places the data of the result of
// exchange i. If status is true, the results begin with an NFS status, and any other status than
// NFS3_OK is an error.
func (c *calls) of(p wire.Procedure, maxArgs int, args func(i int, w *xdr.Writer), sink func(i int) []byte, status bool) func(n int) error {
	row := &nfs.Binding3.Procedures[p]
	for i, x := range c.all {
		x.Procedure, x.Binding, x.MaxArgs, x.MaxResults = uint32(p), row, maxArgs, row.MaxResults
		if args != nil {
			x.Args = func(w *xdr.Writer) { args(i, w) }
		}
		if sink != nil {
			x.Sinks = [][]byte{sink(i)}
		}
		x.Done = func(x *rpc.Exchange) {
			err := x.Err
			if err == nil && status {
				if s := wire.NFSStat3(x.Results.Uint32()); s != wire.NFS3OK {
					err = fmt.Errorf("%v: %v", p, s)
				}
			}
			if c.ended(err) {
				c.k.Start(x)
			}
		}
	}
	return func(n int) error { return c.run(n, len(c.all), func(i int) { c.k.Start(c.all[i]) }) }
}

// ended records the end of a call. It reports whether the caller must start another one.
func (t *turns) ended(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed, t.left = err, 0
	}
	if t.left > 0 {
		t.left--
		return true
	}
	if t.out--; t.out == 0 {
		t.over <- struct{}{}
	}
	return false
}

func (c *calls) null() func(n int) error { return c.of(wire.ProcNull, 0, nil, nil, false) }

// read returns a function that makes READs of `size` bytes. Each exchange reads its own part of the
// file.
func (c *calls) read(fh wire.FileHandle3, size int) func(n int) error {
	_, sinks := pieces(len(c.all), size)
	return c.of(wire.ProcRead, wire.Read3ArgsMaxSize, func(i int, w *xdr.Writer) {
		(&wire.Read3Args{FileHandle: fh, Offset: uint64(i * size), Count: uint32(size)}).Encode(w)
	}, func(i int) []byte { return sinks[i] }, true)
}

func (c *calls) write(fh wire.FileHandle3, size int) func(n int) error {
	_, data := pieces(len(c.all), size)
	return c.of(wire.ProcWrite, wire.Write3ArgsMaxReducedSize, func(i int, w *xdr.Writer) {
		(&wire.Write3Args{FileHandle: fh, Offset: uint64(i * size), Count: uint32(size), Data: xdr.Eligible{Data: data[i]}}).Encode(w)
	}, nil, true)
}

const fileName = "figures"

// create creates the file that the calls read and write.
func (s *stage) create(k rpc.Caller, root wire.FileHandle3) (fh wire.FileHandle3, err error) {
	row := &nfs.Binding3.Procedures[wire.ProcCreate]
	x := rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcCreate), Cred: s.cred,
		Binding: row, MaxArgs: 1024, MaxResults: row.MaxResults,
		Args: func(w *xdr.Writer) {
			(&wire.Create3Args{
				Where: wire.DirOpArgs3{Dir: root, Name: []byte(fileName)},
				How:   wire.CreateHow3{Mode: wire.Unchecked, ObjAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: 0o600}}},
			}).Encode(w)
		},
	}
	err = rpc.Do(context.Background(), k, &x, func(d *xdr.Decoder) error {
		var res wire.Create3Res
		res.Decode(d)
		if res.Status != wire.NFS3OK {
			return fmt.Errorf("CREATE: %v", res.Status)
		}
		fh.Data = append([]byte(nil), res.ResOK.Obj.Handle.Data...)
		return d.Err()
	})
	return fh, err
}

// getattrs returns a client like echo that makes GETATTR calls to the server. Like echo, it
// encodes the call only once, so that the two differ only in their servers.
func (s *stage) getattrs(addr string, depth int, fh wire.FileHandle3) (*echo, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { c.Close() })
	w := xdr.NewWriter(make([]byte, 4, 512))
	rpc.PutCall(w, &rpc.CallHeader{Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcGetattr), Cred: s.cred})
	(&wire.Getattr3Args{Object: fh}).Encode(w)
	call := w.Bytes()
	binary.BigEndian.PutUint32(call, 1<<31|uint32(len(call)-4))
	return newPipeline(c, depth, call, 4+24+wire.Getattr3ResMaxSize), nil
}
