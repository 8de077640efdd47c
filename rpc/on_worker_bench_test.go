package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// A call that would block, and goes to a worker of the executor.
func BenchmarkCallOnAWorker(b *testing.B) {
	s, p, conn := newServer(b, rpc.Config{})
	p.Release(1)
	m := rpctest.Message(1, rpctest.STALL, u32(1))
	c := rpctest.NewCall(conn, m)
	b.ReportAllocs()
	for b.Loop() {
		c.Again(conn, m)
		c.Go(s)
		<-c.Done
		<-p.Arrived(1)
	}
}
