package mem

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// If many shares use memory up to the ceiling, with cancels and trims, no request is forgotten, no
// memory is handed out twice, and the ceiling holds.
func TestStressAtTheCeiling(t *testing.T) {
	const (
		ceiling = 9 * mib
		share   = 3 * mib
		workers = 24
		rounds  = 150
	)
	p := configured(t, Config{Ceiling: ceiling, Share: share})
	var inUse atomic.Int64
	var wg, trimmer sync.WaitGroup
	stop := make(chan struct{})
	trimmer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.Trim()
				p.Housekeep()
			}
		}
	})
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			s := p.NewShare()
			defer s.Close()
			use := func(b *Buffer) {
				mem := b.Bytes()
				if n := inUse.Add(int64(cap(mem))); n > ceiling {
					t.Errorf("%d bytes in use", n)
				}
				mark := rng.Uint64()
				for i := 0; i+8 <= len(mem); i += PageSize {
					binary.LittleEndian.PutUint64(mem[i:], mark)
				}
				for i := 0; i+8 <= len(mem); i += PageSize {
					if binary.LittleEndian.Uint64(mem[i:]) != mark {
						t.Errorf("another buffer's owner writes here")
					}
				}
				inUse.Add(-int64(cap(mem)))
				b.Release()
			}
			var answer = make(chan *Buffer, 1)
			r := &Request{Granted: func(_ *Request, b *Buffer, err error) {
				if err != nil {
					t.Error(err)
				}
				answer <- b
			}}
			for range rounds {
				r.Size = 8 + rng.IntN(share-8)
				if rng.IntN(3) > 0 {
					r.Size = 8 + rng.IntN(64<<10)
				}
				if b, ok := s.TryGet(r.Size); ok {
					use(b)
					continue
				}
				s.Get(r)
				if rng.IntN(4) == 0 && s.Cancel(r) {
					continue
				}
				if b := <-answer; b != nil {
					use(b)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	trimmer.Wait()
	if st := p.Stats(); st.InUse != 0 || st.Waiting != 0 || st.Peak > ceiling {
		t.Fatalf("%+v", st)
	}
}

// If Cancel races with the grant, either Cancel succeeds or Granted is called, not both.
func TestCancelRace(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	a, b := p.NewShare(), p.NewShare()
	for range 2000 {
		held, ok := a.TryGet(4 * mib)
		if !ok {
			t.Fatal("the pool is not empty")
		}
		var granted atomic.Int32
		r := &Request{Size: mib, Granted: func(_ *Request, b *Buffer, err error) {
			granted.Add(1)
			b.Release()
		}}
		b.Get(r)
		var wg sync.WaitGroup
		var cancelled bool
		wg.Go(held.Release)
		wg.Go(func() { cancelled = b.Cancel(r) })
		wg.Wait()
		if n := granted.Load(); n == 1 == cancelled || n > 1 {
			t.Fatalf("granted %d times, cancelled %v", n, cancelled)
		}
	}
}

// If closing races with Get, Release and Trim, each request is still answered once.
func TestCloseRace(t *testing.T) {
	for range 50 {
		p, err := NewPool(Config{Ceiling: 4 * mib, Share: 2 * mib})
		if err != nil {
			t.Fatal(err)
		}
		var asked, answered sync.WaitGroup
		for range 8 {
			s := p.NewShare()
			asked.Go(func() {
				for i := range 50 {
					answered.Add(1)
					s.Get(&Request{Size: 1 + i*mib/25, Granted: func(_ *Request, b *Buffer, err error) {
						if b != nil {
							b.Bytes()[0]++
							b.Release()
						}
						answered.Done()
					}})
					if i == 40 {
						s.Close()
					}
				}
			})
		}
		asked.Go(func() { p.Trim() })
		asked.Go(p.Close)
		asked.Wait()
		answered.Wait()
		// Another goroutine may still deliver grants, and release the last Buffer only now.
		for p.Stats().InUse != 0 {
			runtime.Gosched()
		}
	}
}

func TestGetAndReleaseDoNotAllocate(t *testing.T) {
	p := newPool(t, 16*mib, 0)
	s := p.NewShare()
	r := &Request{Size: mib + PageSize, Granted: func(_ *Request, b *Buffer, err error) { b.Release() }}
	if n := testing.AllocsPerRun(1000, func() { s.Get(r) }); n != 0 {
		t.Errorf("Get and Release: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		b, _ := s.TryGet(4096)
		b.Release()
	}); n != 0 {
		t.Errorf("TryGet and Release: %v allocations", n)
	}
	// Requests that pass through the queues.
	if n := testing.AllocsPerRun(1000, func() {
		b, _ := s.TryGet(8 * mib)
		s.Get(r)
		b.Release()
	}); n != 0 {
		t.Errorf("waiting Get: %v allocations", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"4KiB", 4096}, {"1MiB", mib}, {"1MiB+4KiB", mib + PageSize}} {
		b.Run(c.name, func(b *testing.B) {
			p := newPool(b, 256*mib, 0)
			s := p.NewShare()
			r := &Request{Size: c.size, Granted: func(_ *Request, b *Buffer, err error) { b.Release() }}
			b.ReportAllocs()
			for b.Loop() {
				s.Get(r)
			}
		})
	}
	// An address is counted by site; held is what it holds meanwhile.
	for _, held := range []int{0, 8} {
		b.Run(fmt.Sprintf("1MiB in a group, %d MiB held", held), func(b *testing.B) {
			p := newPool(b, 256*mib, 0)
			g, s := p.NewGroup(), p.OpenShare(site(1, 1), nil)
			defer release(take(p, g, held, site(1, 1)))
			r := &Request{Size: mib, Group: g, Granted: func(_ *Request, b *Buffer, err error) { b.Release() }}
			b.ReportAllocs()
			for b.Loop() {
				s.Get(r)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		p := newPool(b, 256*mib, 16*mib)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			s := p.NewShare()
			for pb.Next() {
				m, _ := s.TryGet(64 << 10)
				m.Release()
			}
		})
	})
}
