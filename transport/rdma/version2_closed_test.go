package rdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted returns a call of n bytes that counts its completions in done, and gives its parts back like a real one.
func (s *modelSide) counted(xid uint32, n int, done *atomic.Int32) *outbound {
	o := s.message(xid, n)
	o.sent = func(error, int) {
		o.reset()
		done.Add(1)
	}
	return o
}

// If the connection ends while the device takes a part, the message is not done before the device has the part:
// its parts would serve another connection, and the first one would still send them.
func TestEndWhileAPartIsPosted(t *testing.T) {
	defer setPatience(time.Hour)()
	e := newModel(t, 64, 64)[0]
	var done atomic.Int32
	posted := 0
	e.posting = func() {
		if posted++; posted == 2 {
			e.v.closed()
		}
		if done.Load() != 0 {
			t.Errorf("the message is done while the device takes its part %d", posted)
		}
	}
	e.v.post(e.counted(1, 3500, &done))
	if posted != 4 || done.Load() != 1 {
		t.Errorf("the device got %d messages, %d were completed", posted, done.Load())
	}
	if e.v.waiting != 0 || e.v.k.sent.Load() != e.v.k.back.Load() {
		t.Errorf("%d messages wait; %d were given away, %d came back", e.v.waiting, e.v.k.sent.Load(), e.v.k.back.Load())
	}
}

// Whenever a connection ends, each message of several goroutines is completed once. The race detector also finds a part
// that is in use twice.
func TestEndAmongManyGoroutines(t *testing.T) {
	defer setPatience(time.Hour)()
	const senders, messages = 3, 8
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		e := newModel(t, 64, 1+r.IntN(64))[0]
		var done, posted atomic.Int32
		at := int32(1 + r.IntN(40))
		var working sync.WaitGroup
		over := make(chan struct{})
		e.posting = func() {
			if posted.Add(1) == at {
				close(over)
			}
			pause(over)
		}
		for i := range senders {
			working.Go(func() {
				for n := range messages {
					o := e.counted(uint32(i*messages+n), 500+900*n, &done)
					if e.v.post(o) {
						o.sent(nil, -1)
					}
				}
			})
		}
		working.Go(func() {
			for !pause(over) && e.v.waitingNow() < 10 {
			}
			e.v.closed()
		})
		working.Wait()
		if n := done.Load(); n != senders*messages {
			t.Errorf("seed %d: %d messages were completed", seed, n)
		}
	}
}

// waitingNow returns how many messages wait.
func (v *version2) waitingNow() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting
}
