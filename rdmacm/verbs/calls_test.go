package verbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
	"github.com/nfsrdmad/nfsrdmad/test/await"
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

// Over RoCE, RDMA Reads that the device gets in one call have one completion for each MiB, whether they
// are one chain or several. Over iWARP each Read has its own. The Reads bring their data in all cases.
func TestCompletionsOfReads(t *testing.T) {
	const reads = 8
	for name, c := range map[string]struct {
		iwarp, chains bool
		length        int
		want          int64
	}{
		"one chain over RoCE":  {false, false, 100, 1},
		"chains over RoCE":     {false, true, 100, 1},
		"long ones over RoCE":  {false, true, 256 << 10, 2},
		"one chain over iWARP": {true, false, 100, reads},
		"chains over iWARP":    {true, true, 100, reads},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := make([]byte, reads*c.length)
				for i := range data {
					data[i] = byte(i / 7)
				}
				read := make([]byte, len(data))
				d := fakedevice.New(c.iwarp)
				var from rdmacm.Region
				param := peerParam()
				outcomes := make(chan rdmatest.Outcome, reads)
				param.Received = func(p *rdmatest.Peer, m *rdmacm.Recv) {
					m.Release()
					var chain []rdmacm.Work
					post := func() {
						p.Conn().Post(&rdmacm.Chain{Work: chain, Done: func(_ *rdmacm.Chain, err error, failed int) {
							outcomes <- rdmatest.Outcome{Err: err, Failed: failed}
						}})
						chain = nil
					}
					for at := 0; at < len(data); at += c.length {
						chain = append(chain, rdmatest.ReadOf(rdmatest.At(from, at), read[at:at+c.length]))
						if c.chains {
							post()
						}
					}
					if !c.chains {
						post()
					}
				}
				p := open(t, d, nil)
				l := listen(t, p)
				accepted := make(chan *rdmatest.Peer)
				go func() { accepted <- rdmatest.AcceptPeer(t, l, param) }()
				b := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
				a := <-accepted
				from = b.Expose(data, rdmacm.RemoteRead)
				before := d.Completions.Load()
				if err := b.Send([]byte("read")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for range len(outcomes) {
					if o := <-outcomes; o.Err != nil {
						t.Errorf("a chain comes back with %v", o.Err)
					}
				}
				if !bytes.Equal(read, data) {
					t.Error("the Reads bring other bytes")
				}
				if n := d.Completions.Load() - before - 1; n != c.want { // one is that of the Send
					t.Errorf("%d completions, want %d", n, c.want)
				}
				leave(a, b)
			})
		})
	}
}

// If one RDMA Read of a chain fails, its chain names it, although only the last Read asked for a
// completion. Chains before it are done, and chains behind it come back as flushed.
func TestFailedReadOfAChainIsNamed(t *testing.T) {
	const reads = 4
	for bad := range reads {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				a, b := pair(t, d)
				from := rdmatest.At(b.Expose(make([]byte, 64), rdmacm.RemoteRead), 0)
				chain := func(bad int) (chain []rdmacm.Work) {
					for i := range reads {
						r := from
						if i == bad {
							r.STag++
						}
						chain = append(chain, rdmatest.ReadOf(r, make([]byte, 64)))
					}
					return chain
				}
				d.Hold(true)
				before, failing, behind := a.Post(chain(-1)...), a.Post(chain(bad)...), a.Post(rdmatest.SendOf([]byte("behind")))
				d.Hold(false)
				if o := <-before; o.Err != nil {
					t.Errorf("the chain before comes back with %v", o.Err)
				}
				if o := <-failing; !errors.Is(o.Err, rdmacm.ErrNotExposed) || o.Failed != bad {
					t.Errorf("the chain comes back with %v of work %d, want work %d", o.Err, o.Failed, bad)
				}
				if o := <-behind; !errors.Is(o.Err, rdmacm.ErrFlushed) {
					t.Errorf("the chain behind comes back with %v", o.Err)
				}
				a.End()
				b.End()
			})
		})
	}
}

// Once Done of a chain was called, the connection keeps nothing of it.
func TestDoneChainIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, fakedevice.New(false))
		var chains []weak.Pointer[rdmacm.Chain]
		var under sync.WaitGroup
		for range 8 {
			under.Add(1)
			ch := &rdmacm.Chain{Work: []rdmacm.Work{rdmatest.SendOf([]byte("to be forgotten"))}}
			ch.Done = func(*rdmacm.Chain, error, int) { under.Done() }
			chains = append(chains, weak.Make(ch))
			a.Conn().Post(ch)
		}
		under.Wait()
		runtime.GC()
		for i, ch := range chains {
			if ch.Value() != nil {
				t.Errorf("chain %d is still reachable", i)
			}
		}
		a.Conn().Disconnect()
		a.End()
		b.End()
	})
}

// While the device registers the staging blocks, which may take long, no other method waits.
func TestSlowRegistrationHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		var slow atomic.Bool
		goOn := make(chan struct{})
		d.FailRegister = func(int, int) error {
			if slow.Load() {
				<-goOn
			}
			return nil
		}
		a, b := pair(t, d)
		slow.Store(true)
		sent := make(chan bool)
		go func() { sent <- a.Conn().SendShort([][]byte{[]byte("short")}, 0) }()
		synctest.Wait()
		called := make(chan struct{})
		go func() {
			a.Conn().Progress()
			a.Conn().Unsent()
			d.Tell(device.TimewaitExit) // an event for each connection
			close(called)
		}()
		await.Until(t, "methods of the connection return", func() bool {
			select {
			case <-called:
				return true
			default:
				return false
			}
		})
		slow.Store(false)
		close(goOn)
		<-sent
		a.End()
		b.End()
	})
}
