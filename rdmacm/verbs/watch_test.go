package verbs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// awake is a device whose only working method is Wake.
type awake struct{ device.Conn }

func (awake) Wake() {}

// A peer that lets a request complete now and then is not stalled, however many requests wait.
// It is stalled if no request completes during StallTimeout.
func TestStallIsCountedFromTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 20 * time.Second
		c := &Conn{p: &Provider{cfg: Config{StallTimeout: stall}}, dev: awake{}}
		c.mu.Lock()
		c.out.queue = append(c.out.queue, new(posting))
		c.watchLocked()
		c.mu.Unlock()
		for range 50 {
			time.Sleep(stall - time.Second)
			c.mu.Lock()
			c.out.head++
			if c.ending.failed {
				t.Fatalf("ended with %v", c.ending.cause)
			}
			c.mu.Unlock()
		}
		time.Sleep(2 * stall)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ending.cause != rdmacm.ErrStalled {
			t.Errorf("ended with %v", c.ending.cause)
		}
	})
}
