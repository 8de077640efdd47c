package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Calls of every kind from many connections share little memory, and some peers stall: each call
// waits for memory in turn, none fails, nothing deadlocks, the ceiling holds.
func TestUnderTheCeiling(t *testing.T) {
	for name, device := range map[string]rdmacm.Provider{"memory": nil, "iwarp": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{
				device: device, provider: rdmatest.Config{Quiet: true},
				pool: mem.Config{Ceiling: 32 << 20, Share: 4 << 20},
			})
			var all sync.WaitGroup
			for i := range 8 {
				c := b.dial(DialConfig{maxSegment: 50_000 + i, NoPlacement: i == 7})
				for j := range 12 / slower {
					all.Go(func() {
						r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						for range 12 {
							n := r.IntN(1 << (r.IntN(20) + 1))
							var err error
							switch r.IntN(5) {
							case 0:
								err = get(t, c, n, make([]byte, n))
							case 1:
								err = get(t, c, n, nil)
							case 2:
								err = put(t, c, pattern(n))
							case 3:
								n = min(n, rpctest.MaxEcho)
								x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
								x.MaxArgs = n + 8
								err = do(t, c, x, func(d *xdr.Decoder) { d.Opaque(rpctest.MaxEcho) })
							case 4:
								err = do(t, c, null(), nil)
							}
							if err != nil {
								t.Errorf("%d bytes: %v", n, err)
							}
						}
					})
				}
			}
			// Two peers expose memory and never let the server read it.
			if device == nil {
				for range 2 {
					p := b.peer()
					serverEnd(p).Faults().HoldReads()
					r := p.Expose(make([]byte, 1<<20), rdmacm.RemoteRead)
					for i := range uint32(3) {
						m, pos := putCall(i, "stalled", 1<<20)
						p.Send(message{xid: i, reads: at(pos, cut(r, 1<<20)...), payload: m}.bytes())
					}
					defer p.Conn().Abort(nil)
				}
			}
			await.Workload(t, "all calls end", all.Wait)
			if s := b.pool.Stats(); s.Peak > s.Ceiling || s.Refused > 0 {
				t.Errorf("%d bytes at most of %d, %d refused", s.Peak, s.Ceiling, s.Refused)
			}
		})
	}
}

// While 100 connections have 128 stalled calls each, other calls go on. All calls are answered in
// the end.
func TestManyStalledCalls(t *testing.T) {
	connections, calls := 100/slower, 128
	for name, device := range map[string]rdmacm.Provider{"memory": nil, "iwarp": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{device: device, provider: rdmatest.Config{Quiet: true}})
			var all sync.WaitGroup
			for range connections {
				c := b.dial(DialConfig{})
				for range calls {
					all.Add(1)
					x := exchangeFor(rpctest.STALL, count(9))
					x.Done = func(x *rpc.Exchange) {
						if x.Err != nil {
							t.Error(x.Err)
						}
						all.Done()
					}
					c.Start(x)
				}
			}
			c := b.dial(DialConfig{})
			for range 100 {
				if err := do(t, c, null(), nil); err != nil {
					t.Fatal(err)
				}
			}
			b.program.Release(9)
			await.Workload(t, "all calls end", all.Wait)
		})
	}
}

// Clients that connect, call, cancel and leave, in random order, leave nothing behind.
func TestChurn(t *testing.T) {
	for name, device := range map[string]rdmacm.Provider{"memory": nil, "iwarp": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{device: device, provider: rdmatest.Config{Quiet: true}, server: Config{RemoteInvalidation: true}})
			var all sync.WaitGroup
			for i := range 20 / slower {
				all.Go(func() {
					r := rand.New(rand.NewPCG(7, uint64(i)))
					for range 8 {
						c, err := Dial(t.Context(), b.device, b.addr, DialConfig{
							Reconnect: r.IntN(2) == 0, RemoteInvalidation: true, redial: time.Millisecond,
						})
						if err != nil {
							t.Error(err)
							return
						}
						var calls sync.WaitGroup
						for range r.IntN(40) {
							n := r.IntN(200_000)
							x := getTo(n, make([]byte, n))
							if r.IntN(2) == 0 {
								x = putOf(pattern(n))
							}
							cancel := r.IntN(4) == 0
							calls.Go(func() {
								ctx, stop := context.WithCancel(t.Context())
								if cancel {
									stop()
								}
								defer stop()
								err := rpc.Do(ctx, c, x, nil)
								if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, rpc.ErrCallLost) && !errors.Is(err, errClientClosed) {
									t.Error(err)
								}
							})
						}
						if r.IntN(2) == 0 {
							await.Workload(t, "all calls end", calls.Wait)
						}
						c.Close()
						await.Workload(t, "all calls end", calls.Wait)
					}
				})
			}
			await.Workload(t, "all calls end", all.Wait)
		})
	}
}

// Under random faults and load, calls succeed on a later connection, and a call that may not be
// executed twice is executed once.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 3))
			b := newBench(t, benchConfig{provider: rdmatest.Config{Quiet: true, Conn: func(c *rdmatest.Conn) {
				mu.Lock()
				defer mu.Unlock()
				f := c.Faults()
				switch n := 20 + r.IntN(200); r.IntN(6) {
				case 0:
					f.LoseAt(n, rdmatest.Before)
				case 1:
					f.LoseAt(n, rdmatest.After)
				case 2:
					f.ReorderWrites()
				case 3:
					f.FailDeregister(n, nil)
				}
			}}})
			c := b.dial(DialConfig{Reconnect: true, redial: time.Millisecond, RemoteInvalidation: true})
			var all sync.WaitGroup
			for i := range 30 {
				all.Go(func() {
					for j := range 10 {
						n := 3000 + 100*i + j
						if err := put(t, c, pattern(n)); err != nil {
							t.Error(err)
						}
						if err := get(t, c, n, make([]byte, n)); err != nil {
							t.Error(err)
						}
						if err := get(t, c, n, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			await.Workload(t, "all calls end", all.Wait)
			if n := b.program.Served[rpctest.PUT].Load(); n != 300 {
				t.Errorf("PUT was executed %d times for 300 calls", n)
			}
		})
	}
}
