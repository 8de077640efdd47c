package rdma

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// secondProgram is a test program with another number.
type secondProgram struct{ *rpctest.Program }

func (secondProgram) Number() uint32 { return rpctest.Number + 1 }

// toSecond is a Caller whose calls go to the second program.
type toSecond struct{ rpc.Caller }

func (k toSecond) Start(x *rpc.Exchange) {
	x.Program = rpctest.Number + 1
	k.Caller.Start(x)
}

// Two programs share one connection, and make calls at the same time: whatever the inline thresholds
// are, each call has its arguments and its results, from below the thresholds to beyond them (V2-N24).
func TestProgramsShareAConnection(t *testing.T) {
	for _, inline := range [][2]int{{1024, 1024}, {1024, 8192}, {8192, 1024}, {4096, 4096}, {65536, 65536}} {
		t.Run(fmt.Sprint("client ", inline[0], " server ", inline[1]), func(t *testing.T) {
			b := newBench(t, benchConfig{server: Config{InlineSend: inline[1], InlineReceive: inline[1], Version2: true}})
			second := secondProgram{rpctest.NewProgram()}
			b.rpc.Register(second)
			k := b.dial(DialConfig{InlineSend: inline[0], InlineReceive: inline[0], Version2: true})
			var calls sync.WaitGroup
			const each = 40
			for _, to := range []rpc.Caller{k, toSecond{k}} {
				calls.Go(func() {
					for i := range each {
						n := inline[i%2] - each/2*8 + i*8
						for what, err := range map[string]error{
							"PUT": rpctest.Put(to, n), "GET": rpctest.Get(to, n, i%3 == 0),
							"ECHO": rpctest.Echo(to, n%rpctest.MaxEcho), "WIDE": rpctest.Wide(to, n%rpctest.MaxWide),
						} {
							if err != nil {
								t.Errorf("%s of %d bytes to %T: %v", what, n, to, err)
							}
						}
					}
				})
			}
			calls.Wait()
			for _, p := range []*rpctest.Program{b.program, second.Program} {
				for _, procedure := range []int{rpctest.PUT, rpctest.GET, rpctest.ECHO, rpctest.WIDE} {
					if served := p.Served[procedure].Load(); served != each {
						t.Errorf("a program has served %d calls of procedure %d, not %d", served, procedure, each)
					}
				}
			}
			if info, _ := k.Info(); info.Version != 2 || info.SendLimit != min(inline[0], max(inline[1], leastReceive2)) {
				t.Errorf("the connection has version %d and a threshold of %d bytes", info.Version, info.SendLimit)
			}
		})
	}
}
