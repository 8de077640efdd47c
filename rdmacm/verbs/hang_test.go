package verbs_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// While a device neither returns requests nor destroys their queues, it may still use their memory. So
// their chains are not done, the connection keeps its seat, and the log has a line. They are done when the
// device has destroyed the queues, was removed, or the provider closes.
func TestMemoryIsKeptWhileTheDeviceMayUseIt(t *testing.T) {
	for name, end := range map[string]func(p *verbs.Provider, d *fakedevice.Device){
		"answers again":   func(_ *verbs.Provider, d *fakedevice.Device) { d.Hang(false) },
		"removed":         func(_ *verbs.Provider, d *fakedevice.Device) { d.Remove(true) },
		"removed quietly": func(_ *verbs.Provider, d *fakedevice.Device) { d.Remove(false) },
		"provider closes": func(p *verbs.Provider, _ *fakedevice.Device) { p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				var mu sync.Mutex
				var lines []string
				seat := &oneSeat{Seat: rdmacm.Uncounted}
				p, err := verbs.New(verbs.Config{Library: d, Seats: seat, Log: func(s string) {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, s)
				}})
				if err != nil {
					t.Fatal(err)
				}
				a, b := pairAt(t, p, firstAddress)
				to, _ := exposed(a, 100)
				d.Hang(true)
				write := b.Post(rdmatest.WriteOf(to, make([]byte, 100)))
				b.Conn().Abort(nil)
				a.Conn().Abort(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-write:
					t.Error("the Write is done although the device has it")
				case <-b.Conn().Done():
					t.Error("the connection has ended although the device has its requests")
				default:
				}
				mu.Lock()
				if len(lines) != 2 || !strings.Contains(lines[0], "cannot destroy the queues") {
					t.Errorf("the log has %q", lines)
				}
				mu.Unlock()
				if n := seat.left.Load(); n != 0 {
					t.Errorf("%d seats are given up", n)
				}
				end(p, d)
				<-write
				a.End()
				b.End()
				if name == "provider closes" {
					return // the process ends
				}
				p.Close()
				if left := d.Left(); left != (fakedevice.Left{}) {
					t.Errorf("there is left %+v", left)
				}
			})
		})
	}
}

// If memory of a request that is done cannot be deregistered, the connection ends, and Done of its chain
// is called only when the queue pair no longer exists.
func TestMemoryIsKeptWhileThePeerMayReachIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(true)
		var failing atomic.Bool
		d.Fail = func(call string) error {
			if call == "Deregister" && failing.CompareAndSwap(true, false) {
				return syscall.EIO
			}
			return nil
		}
		a, b := pair(t, d)
		from := rdmatest.At(b.Expose(make([]byte, 100), 1), 0)
		queues := d.Left().Queues
		failing.Store(true)
		sink := make([]byte, 100)
		if out := a.Do(rdmatest.ReadOf(from, sink)); d.Left().Queues >= queues {
			t.Errorf("the Read ends with %v while its queue pair exists", out.Err)
		}
		a.End()
		b.End()
	})
}
