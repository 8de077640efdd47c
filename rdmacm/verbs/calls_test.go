package verbs_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// An answerer answers each message as a server answers a READ: with RDMA Writes into the peer's
// segments, and then a Send.
type answerer struct {
	conn     rdmacm.Conn
	to       rdmacm.Remote
	payload  []byte
	segments int
}

func (a *answerer) Received(m *rdmacm.Recv) {
	m.Release()
	a.conn.Provide(1, 4096)
	var work []rdmacm.Work
	for range a.segments {
		work = append(work, rdmatest.WriteOf(a.to, a.payload))
	}
	work = append(work, rdmatest.SendOf([]byte("done")))
	a.conn.Post(&rdmacm.Chain{Work: work, Done: func(*rdmacm.Chain, error, int) {}})
}

func (a *answerer) Drained()     {}
func (a *answerer) Closed(error) {}

// Each time that a connection's goroutine wakes, it calls the device at most three times,
// however many segments and messages there are: to poll, to post, and to arm.
func TestAWakeUpTakesThreeCalls(t *testing.T) {
	for _, segments := range []int{1, 16} {
		for _, messages := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d messages of %d segments", messages, segments), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := fakedevice.New(false)
					var mu sync.Mutex
					var counted []int
					d.Woken = func(calls int) {
						mu.Lock()
						counted = append(counted, calls)
						mu.Unlock()
					}
					h := &answerer{payload: make([]byte, 64), segments: segments}
					p, err := verbs.New(verbs.Config{Library: d, Arena: func() []byte { return h.payload }})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { p.Close() })
					l := listen(t, p)
					accepted := make(chan rdmacm.Conn)
					go func() {
						param := peerParam().ConnParam
						param.Handler, param.InboundReads = h, 0
						r, err := l.Accept()
						if err != nil {
							t.Error(err)
							return
						}
						c, err := r.Accept(param)
						if err != nil {
							t.Error(err)
						}
						accepted <- c
					}()
					a := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
					h.conn = <-accepted
					h.to, _ = exposed(a, 64)
					for range 20 {
						synctest.Wait()
						mu.Lock()
						counted = nil
						mu.Unlock()
						d.Hold(true)
						for range messages {
							a.Post(rdmatest.SendOf([]byte("read")))
						}
						d.Hold(false)
						for range messages {
							a.Receive()
						}
						synctest.Wait()
						mu.Lock()
						if slices.Max(counted) > 3 {
							t.Errorf("calls of the device, by wake-ups: %v", counted)
						}
						mu.Unlock()
					}
					a.Conn().Disconnect()
					a.End()
					<-h.conn.Done()
				})
			})
		}
	}
}

// A message may announce promised receives to the peer. So the device gets all of these
// receives before the message, also if one call cannot hand over so many.
func TestReceivesAreHandedOverBeforeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		p := open(t, d, nil)
		l := listen(t, p)
		granting := peerParam()
		granting.Received = func(p *rdmatest.Peer, m *rdmacm.Recv) {
			m.Release()
			p.Promise(100)
			p.Post(rdmatest.SendOf([]byte("100 more")))
		}
		accepted := make(chan *rdmatest.Peer)
		go func() { accepted <- rdmatest.AcceptPeer(t, l, granting) }()
		asking := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
		b := <-accepted
		synctest.Wait()
		var works []int // number of works in each call
		d.Take = func(n int) int {
			works = append(works, n)
			return n
		}
		asking.Post(rdmatest.SendOf([]byte("more?")))
		asking.Receive()
		synctest.Wait()
		if !slices.Equal(works, []int{1, 0, 1}) {
			t.Errorf("the calls hand over %v messages", works)
		}
		b.Conn().Disconnect()
		asking.End()
		b.End()
	})
}
