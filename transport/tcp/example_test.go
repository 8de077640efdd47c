package tcp_test

import (
	"context"
	"fmt"
	"net"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// adder is program 0x20000001, version 1: its procedure 1 adds two numbers.
type adder struct{}

var adderBinding = rpc.Binding{Procedures: []rpc.Procedure{
	0: {Name: "NULL"},
	1: {Name: "ADD", MaxArgs: 8, MaxResults: 4},
}}

func (adder) Number() uint32               { return 0x20000001 }
func (adder) Versions() (low, high uint32) { return 1, 1 }
func (adder) Binding(uint32) *rpc.Binding  { return &adderBinding }

// Judge admits every call. A program that knows its clients decides here.
func (adder) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

func (adder) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == 1 {
		a, b := c.Args.Uint32(), c.Args.Uint32()
		if c.Args.Err() != nil {
			return rpc.GarbageArgs
		}
		w.Uint32(a + b)
	}
	return rpc.Done
}

// Example serves a program over TCP and calls it.
func Example() {
	calls := rpc.NewServer(rpc.Config{})
	defer calls.Close()
	calls.Register(adder{})
	pool, err := mem.NewPool(mem.Config{Ceiling: 16 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := tcp.NewServer(tcp.Config{RPC: calls, Pool: pool})
	defer s.Close()
	go s.Serve(listener)

	ctx := context.Background()
	conn, err := tcp.Dial(ctx, listener.Addr().String(), tcp.DialConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	var sum uint32
	err = rpc.Do(ctx, conn, &rpc.Exchange{
		Program: 0x20000001, Version: 1, Procedure: 1, MaxArgs: 8, MaxResults: 4,
		Args: func(w *xdr.Writer) {
			w.Uint32(2)
			w.Uint32(40)
		},
	}, func(results *xdr.Decoder) error {
		sum = results.Uint32()
		return results.Err()
	})
	fmt.Println(sum, err)
	// Output: 42 <nil>
}
