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

// calls makes NFS calls over one connection, depth at a time: each reply starts
// the next call, as a client that pipelines does.
type calls struct {
	k    rpc.Caller
	all  []*rpc.Exchange
	over chan struct{} // a token when all calls of a run have ended

	mu     sync.Mutex
	left   int // calls to start
	out    int // calls under way
	failed error
}

func (s *stage) newCalls(k rpc.Caller, depth int) *calls {
	c := &calls{k: k, over: make(chan struct{}, 1)}
	for range depth {
		c.all = append(c.all, &rpc.Exchange{Program: wire.Program, Version: wire.Version, Cred: s.cred})
	}
	return c
}

// of prepares every exchange for one procedure and returns what runs them.
// sink, where not nil, is the memory of exchange i for a placed result.
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
	return func(n int) error {
		first := c.all[:min(n, len(c.all))]
		c.mu.Lock()
		c.left, c.out = n-len(first), len(first)
		c.mu.Unlock()
		for _, x := range first {
			c.k.Start(x)
		}
		<-c.over
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.failed
	}
}

// ended takes note of a call's end and says whether another is to be started.
func (c *calls) ended(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed, c.left = err, 0
	}
	if c.left > 0 {
		c.left--
		return true
	}
	if c.out--; c.out == 0 {
		c.over <- struct{}{}
	}
	return false
}

func (c *calls) null() func(n int) error { return c.of(wire.ProcNull, 0, nil, nil, false) }

// read reads 1 MiB at a time, each exchange its own part of the file.
func (c *calls) read(fh wire.FileHandle3) func(n int) error {
	_, sinks := pieces(len(c.all))
	return c.of(wire.ProcRead, wire.Read3ArgsMaxSize, func(i int, w *xdr.Writer) {
		(&wire.Read3Args{FileHandle: fh, Offset: uint64(i) * mib, Count: mib}).Encode(w)
	}, func(i int) []byte { return sinks[i] }, true)
}

func (c *calls) write(fh wire.FileHandle3) func(n int) error {
	_, data := pieces(len(c.all))
	return c.of(wire.ProcWrite, wire.Write3ArgsMaxReducedSize, func(i int, w *xdr.Writer) {
		(&wire.Write3Args{FileHandle: fh, Offset: uint64(i) * mib, Count: mib, Data: xdr.Eligible{Data: data[i]}}).Encode(w)
	}, nil, true)
}

// create makes the file that reads and writes go to.
func (s *stage) create(k rpc.Caller, root wire.FileHandle3) (fh wire.FileHandle3, err error) {
	row := &nfs.Binding3.Procedures[wire.ProcCreate]
	x := rpc.Exchange{
		Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcCreate), Cred: s.cred,
		Binding: row, MaxArgs: 1024, MaxResults: row.MaxResults,
		Args: func(w *xdr.Writer) {
			(&wire.Create3Args{
				Where: wire.DirOpArgs3{Dir: root, Name: []byte("figures")},
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

// getattrs is the client of the bare echo, making GETATTR calls: it encodes one
// of them once, so that what is compared is the two servers.
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
