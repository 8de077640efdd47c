package rdmatest

import (
	"encoding/binary"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var loadRules = []rule{
	{"PostsFromManyGoroutines", both(loadConcurrent)},
	{"RegistrationsFromManyGoroutines", both(loadRegister)},
	{"PeerThatDoesNotReadBlocksNothing", loadPeerStalls},
	{"StreamsBothWays", both(loadBothWays)},
}

// The posts of each goroutine keep their order, whatever the other goroutines post.
func loadConcurrent(s *suite, a, b *Peer) {
	const goroutines, each = 8, 200
	memory := make([]byte, goroutines*8)
	region := b.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	s.promise(b, a, goroutines*each)
	var wg, back sync.WaitGroup
	back.Add(goroutines * each)
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				m := binary.BigEndian.AppendUint32(nil, uint32(g<<16|i))
				a.Conn().Post(&rdmacm.Chain{
					Work: []rdmacm.Work{WriteOf(At(region, g*8), m), SendOf(m)},
					Done: func(_ *rdmacm.Chain, err error, _ int) {
						if err != nil {
							s.Error(err)
						}
						back.Done()
					},
				})
			}
		})
	}
	next := make([]int, goroutines)
	for range goroutines * each {
		m := binary.BigEndian.Uint32(b.Receive().Bytes)
		g, i := int(m>>16), int(m&0xffff)
		if next[g] != i {
			s.Fatalf("message %d of goroutine %d where %d is due", i, g, next[g])
		}
		next[g]++
	}
	within(s.T, "all chains come back", returned(wg.Wait))
	back.Wait()
	s.noError(region.Deregister())
}

func loadRegister(s *suite, a, b *Peer) {
	const goroutines, each = 4, 50
	var wg sync.WaitGroup
	reads := make(chan struct{}, a.Conn().ReadDepth())
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				src := pattern(g*each+i, 5000)
				region, err := b.Conn().Register(src, rdmacm.RemoteRead)
				if err != nil {
					s.Error(err)
					return
				}
				got := make([]byte, len(src))
				done := make(chan error, 1)
				reads <- struct{}{}
				a.Conn().Post(&rdmacm.Chain{
					Work: []rdmacm.Work{ReadOf(At(region, 0), got)},
					Done: func(_ *rdmacm.Chain, err error, _ int) { done <- err },
				})
				err = <-done
				<-reads
				if err == nil {
					err = region.Deregister()
				}
				if err != nil {
					s.Error(err)
					return
				}
				if string(got) != string(src) {
					s.Error("a Read brings other bytes")
				}
			}
		})
	}
	within(s.T, "all chains come back", returned(wg.Wait))
}

// While b does not return from Received, the device stops sending the work of a at some point,
// but a still receives messages. When b continues, everything arrives.
func loadPeerStalls(s *suite) {
	const size, writes = 1 << 20, 48
	hold := make(chan struct{})
	entered := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	enter := sync.OnceFunc(func() { close(entered) })
	stalling := common()
	stalling.Receives = 64
	stalling.Received = func(_ *Peer, r *rdmacm.Recv) {
		enter()
		<-hold
		r.Release()
	}
	a, b := s.pair(common(), stalling)
	s.Cleanup(release)
	region := b.Expose(make([]byte, size), rdmacm.RemoteWrite)
	a.Post(SendOf([]byte("stall")))
	within(s.T, "a message arrives", entered)
	payload := pattern(1, size)
	var last <-chan Outcome
	for range writes {
		last = a.Post(WriteOf(At(region, 0), payload))
	}
	for i := range 10 {
		b.Post(SendOf([]byte{byte(i)}))
		b.Conn().Flush()
		s.same("message", a.Receive().Bytes, []byte{byte(i)})
	}
	release()
	s.ok(a.await(last))
	s.noError(region.Deregister())
}

// Large Writes and Reads in both directions at once do not block each other.
func loadBothWays(s *suite, a, b *Peer) {
	const size, rounds = 1 << 20, 12
	var wg sync.WaitGroup
	for i, p := range [][2]*Peer{{a, b}, {b, a}} {
		near, far := p[0], p[1]
		src := pattern(i, size)
		readable := far.Expose(src, rdmacm.RemoteRead)
		writable := far.Expose(make([]byte, size), rdmacm.RemoteWrite)
		payload := pattern(9+i, size)
		wg.Go(func() {
			for range rounds {
				got := make([]byte, size)
				write := near.Post(WriteOf(At(writable, 0), payload))
				read := near.Post(ReadOf(At(readable, 0), got))
				if o := <-write; o.Err != nil {
					s.Error(o.Err)
				}
				if o := <-read; o.Err != nil {
					s.Error(o.Err)
				}
				if string(got) != string(src) {
					s.Error("a Read brings other bytes")
				}
			}
		})
	}
	within(s.T, "all chains come back", returned(wg.Wait))
}
