package verbs_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// Times within which an idle connection ends after its peer has vanished: if the device gives up
// the probe, and if it does not. Before quiet, the connection has sent no probe.
const (
	quiet   = 59 * time.Second
	noticed = 91 * time.Second
	stalled = 140 * time.Second
)

// idlePair returns two peers that have exchanged a message and do nothing more. works gets the
// number of works that both sides hand to the device from then on.
func idlePair(t *testing.T, d *fakedevice.Device) (a, b *rdmatest.Peer, works *atomic.Int64) {
	works = new(atomic.Int64)
	d.Take = func(n int) int {
		works.Add(int64(n))
		return n
	}
	a, b = pair(t, d)
	if err := a.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b.Receive()
	synctest.Wait()
	works.Store(0)
	return a, b, works
}

// ended waits for the end of p's connection, however long that takes, and returns its error.
func ended(p *rdmatest.Peer) error {
	<-p.Conn().Done()
	return p.End()
}

func leave(a, b *rdmatest.Peer) {
	a.Conn().Disconnect()
	a.End()
	b.End()
}

// If the peer of an idle connection vanishes, the connection ends within a limited time, whether the
// device reports that the peer does not answer, or nothing. On siw, which completes a Write before
// the peer has acknowledged it, an RDMA Read remains unanswered.
func TestVanishedPeerIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		siw    bool
		vanish func(d *fakedevice.Device)
		within time.Duration
		want   error
	}{
		"the device gives up":  {false, func(d *fakedevice.Device) { d.Vanish(true) }, noticed, rdmacm.ErrTimeout},
		"no completion":        {false, func(d *fakedevice.Device) { d.Vanish(true); d.Hold(true) }, stalled, rdmacm.ErrStalled},
		"no answer, over siw":  {true, (*fakedevice.Device).StopReads, stalled, rdmacm.ErrStalled},
		"siw gives up as well": {true, func(d *fakedevice.Device) { d.Vanish(true) }, noticed, rdmacm.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(c.siw)
				d.Attributes.SIW = c.siw
				a, b, _ := idlePair(t, d)
				time.Sleep(10 * time.Second)
				c.vanish(d)
				begun := time.Now() // synctest's fake time
				for _, p := range []*rdmatest.Peer{a, b} {
					if err := ended(p); !errors.Is(err, c.want) {
						t.Errorf("a connection ends with %v, want %v", err, c.want)
					}
				}
				if d := time.Since(begun); d < quiet-10*time.Second || d > c.within {
					t.Errorf("the connections ended after %v", d)
				}
			})
		})
	}
}

// An idle connection whose peer is alive sends a probe every 60 to 90 seconds, and goes on.
func TestLivePeerIsProbedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, works := idlePair(t, fakedevice.New(false))
		time.Sleep(quiet)
		if n := works.Load(); n != 0 {
			t.Errorf("%d probes in the first minute", n)
		}
		time.Sleep(time.Hour - quiet)
		if n := works.Load(); n < 2*36 || n > 2*60 {
			t.Errorf("%d probes in an hour, by two sides", n)
		}
		leave(a, b)
	})
}

// A side that sends, and one that receives, send no probes.
func TestBusyConnectionSendsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, works := idlePair(t, fakedevice.New(false))
		const messages = 200
		for range messages {
			time.Sleep(20 * time.Second)
			if err := a.Send([]byte("still here")); err != nil {
				t.Fatal(err)
			}
			b.Receive()
			b.Promise(1)
		}
		if n := works.Load(); n != messages {
			t.Errorf("%d works for %d messages", n, messages)
		}
		leave(a, b)
	})
}

// While the port is down, no probe ends an idle connection. When the port is up again, the connection
// goes on, or a probe shows that the peer has vanished.
func TestNoProbeWhileThePortIsDown(t *testing.T) {
	for name, vanished := range map[string]bool{"alive": false, "vanished": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				a, b, works := idlePair(t, d)
				d.SetActive(false)
				time.Sleep(time.Hour)
				if n := works.Load(); n != 0 {
					t.Errorf("%d probes while the port is down", n)
				}
				if vanished {
					d.Vanish(true)
				}
				d.SetActive(true)
				if vanished {
					begun := time.Now() // synctest's fake time
					for _, p := range []*rdmatest.Peer{a, b} {
						if err := ended(p); !errors.Is(err, rdmacm.ErrTimeout) {
							t.Errorf("a connection ends with %v", err)
						}
					}
					if d := time.Since(begun); d > noticed {
						t.Errorf("the connections ended after %v", d)
					}
					return
				}
				if err := a.Send([]byte("last")); err != nil || string(b.Receive().Bytes) != "last" {
					t.Errorf("a message after the outage: %v", err)
				}
				leave(a, b)
			})
		})
	}
}
