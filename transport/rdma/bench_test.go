package rdma

import (
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// runCalls runs n calls, at most `at` of them at a time.
func runCalls(b testing.TB, k rpc.Caller, at, n int, exchange func() *rpc.Exchange) {
	b.Helper()
	var started, ended atomic.Int64
	all := make(chan struct{})
	next := func(x *rpc.Exchange) {
		if started.Add(1) <= int64(n) {
			k.Start(x)
		}
	}
	for range at {
		x := exchange()
		x.Done = func(x *rpc.Exchange) {
			if x.Err != nil {
				b.Error(x.Err)
			}
			if ended.Add(1) == int64(n) {
				close(all)
			}
			next(x)
		}
		next(x)
	}
	<-all
}

func benchCalls(b *testing.B, device rdmacm.Provider, at int, size int, exchange func() *rpc.Exchange) {
	bench := newBench(b, benchConfig{device: device, provider: rdmatest.Config{Quiet: true}})
	c := bench.dial(DialConfig{InlineSend: 4096, InlineReceive: 4096})
	if err := do(b, c, exchangeFor(rpctest.NULL, nil), nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	runCalls(b, c, at, b.N, exchange)
	b.StopTimer()
}

func devices(b *testing.B, f func(b *testing.B, device rdmacm.Provider)) {
	b.Run("memory", func(b *testing.B) { f(b, nil) })
	b.Run("iwarp", func(b *testing.B) { f(b, newIwarp(b)) })
}

func BenchmarkNull(b *testing.B) {
	devices(b, func(b *testing.B, device rdmacm.Provider) {
		for _, at := range []int{1, 16, 32} {
			b.Run(map[int]string{1: "depth1", 16: "depth16", 32: "depth32"}[at], func(b *testing.B) {
				benchCalls(b, device, at, 0, null)
			})
		}
	})
}

func BenchmarkGet1M(b *testing.B) {
	devices(b, func(b *testing.B, device rdmacm.Provider) {
		benchCalls(b, device, 8, 1<<20, func() *rpc.Exchange { return getTo(1<<20, make([]byte, 1<<20)) })
	})
}

func BenchmarkPut1M(b *testing.B) {
	devices(b, func(b *testing.B, device rdmacm.Provider) {
		data := pattern(1 << 20)
		benchCalls(b, device, 8, 1<<20, func() *rpc.Exchange { return putOf(data) })
	})
}
