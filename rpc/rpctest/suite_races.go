package rpctest

import (
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Races tests an rpc.Caller under the race detector. It cancels calls at any time, even while the
// transport writes them. It cuts connections. It reuses an Exchange and its memory as soon as Done
// was called. It checks that Done is called once for each call, that it is not called while the
// transport writes the call's arguments, and that each successful call was executed with its own
// arguments.
//
// dial returns a Caller of the test program, and a function that cuts the Caller's present
// connection. The Caller may connect again. Any goroutine may use both.
func Races(t *testing.T, dial func(t *testing.T) (k rpc.Caller, cut func())) {
	const rounds, goroutines, calls = 3, 8, 40
	for round := range rounds {
		k, cut := dial(t)
		first := &racer{t: t, k: k, random: rand.New(rand.NewPCG(uint64(round), goroutines))}
		if !first.call(never) {
			t.Fatal("a call alone does not succeed")
		}
		var ended atomic.Int64
		var wg sync.WaitGroup
		for i := range goroutines {
			r := &racer{t: t, k: k, random: rand.New(rand.NewPCG(uint64(round), uint64(i)))}
			wg.Go(func() {
				for range calls {
					r.call(r.random.IntN(never + 1))
					if n := ended.Add(1); n%(goroutines*calls/3) == 0 {
						cut()
					}
				}
			})
		}
		wg.Wait()
	}
}

var errGivenUp = errors.New("rpctest: given up")

// A racer makes calls one after the other, all with the same Exchange and the same buffer.
type racer struct {
	t      *testing.T
	k      rpc.Caller
	random *rand.Rand
	x      rpc.Exchange
	memory [96 << 10]byte
}

// Values of call's parameter giveUp. They tell when call cancels the RPC: while the transport calls
// Args, right after Start, or never. The value 2 also means never, so that half of the random
// values mean never.
const (
	whileWritten = iota
	soonAfter
	never = 3
)

// call makes one call, and reports whether it succeeded.
func (r *racer) call(giveUp int) bool {
	data := r.memory[:r.random.IntN(1<<(r.random.IntN(17)+1))%len(r.memory)]
	for i := range data {
		data[i] = byte(r.random.Uint32())
	}
	sum := crc32.ChecksumIEEE(data)
	var (
		writing atomic.Bool
		once    sync.Once
		givenUp sync.WaitGroup
	)
	cancel := func() { once.Do(func() { givenUp.Go(func() { r.k.Cancel(&r.x, errGivenUp) }) }) }
	fetch := r.random.IntN(2) == 0
	done := make(chan error, 2)
	args := func(w *xdr.Writer) {
		writing.Store(true)
		if giveUp == whileWritten {
			cancel()
		}
		runtime.Gosched()
		if fetch {
			w.Uint32(uint32(len(data)))
		} else {
			w.String("name")
			w.Payload(data, true, nil)
		}
		writing.Store(false)
	}
	if fetch {
		r.x = *NewExchange(GET, args)
		r.x.Sinks = [][]byte{data}
	} else {
		r.x = *NewExchange(PUT, args)
	}
	r.x.Done = func(x *rpc.Exchange) {
		if writing.Load() {
			r.t.Error("Done was called while the arguments are written")
		}
		err := x.Err
		if d := &x.Results; err == nil && fetch {
			d.EligibleOpaque(xdr.NoLimit)
			err = d.Finish()
		} else if err == nil {
			if n, got := d.Uint32(), d.Uint32(); d.Finish() == nil && (int(n) != len(data) || got != sum) {
				r.t.Errorf("%d bytes arrived of %d, or other ones", n, len(data))
			}
			err = d.Err()
		}
		done <- err
	}
	r.k.Start(&r.x)
	if giveUp == soonAfter {
		cancel()
	}
	err := <-done
	givenUp.Wait()
	clear(data) // the transport must not use it any more
	select {
	case <-done:
		r.t.Error("Done was called twice")
	default:
	}
	return err == nil
}
