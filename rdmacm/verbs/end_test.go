package verbs_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// If the peer's answer to Disconnect is lost, the connection ends with a time-out.
func TestEndComesWithoutTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		d.Lose = func(e device.EventType) bool { return e == device.Disconnected }
		a, b := pair(t, d)
		a.Conn().Disconnect()
		if err := a.End(); !errors.Is(err, rdmacm.ErrTimeout) {
			t.Errorf("the end is told as %v, want %v", err, rdmacm.ErrTimeout)
		}
		b.Conn().Abort(nil)
		b.End()
	})
}

// A peer that refuses work also leaves. If its disconnect message overtakes the refusal, the
// caller still learns which work was refused.
func TestRefusalAfterThePeerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		a, b := pair(t, d)
		d.Hold(true)
		var out []<-chan rdmatest.Outcome
		for _, p := range [][2]*rdmatest.Peer{{a, b}, {b, a}} {
			memory, _ := exposed(p[1], 8)
			memory.Offset++
			out = append(out, p[0].Post(rdmatest.WriteOf(memory, make([]byte, 8))))
		}
		d.Tell(device.Disconnected)
		synctest.Wait()
		d.Hold(false) // the device refuses one of the Writes, and flushes the other
		refused := 0
		for _, o := range out {
			if err := (<-o).Err; errors.Is(err, rdmacm.ErrNotExposed) {
				refused++
			} else if !errors.Is(err, rdmacm.ErrFlushed) {
				t.Error("a Write ends with", err)
			}
		}
		if refused != 1 {
			t.Errorf("%d Writes are told as refused, want 1", refused)
		}
		a.End()
		b.End()
	})
}

// TestEndBeforeTheSetupIsOver: the side that accepts leaves, or aborts, before the connection
// manager has told that the set-up is over. The peer is told all the same, as soon as it is.
func TestEndBeforeTheSetupIsOver(t *testing.T) {
	for name, end := range map[string]func(rdmacm.Conn){
		"Disconnect": rdmacm.Conn.Disconnect,
		"Abort":      func(c rdmacm.Conn) { c.Abort(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				d.HoldEstablished = true
				dialer, acceptor := pair(t, d)
				begun := time.Now() // synctest's fake time
				end(acceptor.Conn())
				synctest.Wait()
				d.Settle()
				if err := dialer.End(); err != nil {
					t.Error("the peer ends with", err)
				}
				if err := acceptor.End(); err != nil && name == "Disconnect" {
					t.Error("this side ends with", err)
				}
				if d := time.Since(begun); d != 0 {
					t.Errorf("the end waits %v", d)
				}
			})
		})
	}
}

// If the set-up never ends and this side ends the connection, the peer is told when this side
// closes the ID.
func TestEndOfASetupThatNeverIsOver(t *testing.T) {
	for _, end := range []func(rdmacm.Conn){rdmacm.Conn.Disconnect, func(c rdmacm.Conn) { c.Abort(nil) }} {
		synctest.Test(t, func(t *testing.T) {
			d := fakedevice.New(false)
			d.HoldEstablished = true
			dialer, acceptor := pair(t, d)
			end(acceptor.Conn())
			if acceptor.End() == nil {
				t.Error("the end is told as orderly")
			}
			begun := time.Now() // synctest's fake time
			dialer.End()
			if d := time.Since(begun); d != 0 {
				t.Errorf("the peer is told %v after this side's end", d)
			}
		})
	}
}

// Short Sends ask for no completion, and the end of the connection does not wait for one.
func TestDisconnectAfterShortSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, fakedevice.New(false))
		for range 3 {
			if !a.Conn().SendShort([][]byte{[]byte("short")}, 0) {
				t.Fatal("a short Send is not taken")
			}
		}
		begun := time.Now() // synctest's fake time
		a.Conn().Disconnect()
		if err := a.End(); err != nil {
			t.Error("this side ends with", err)
		}
		if err := b.End(); err != nil {
			t.Error("the peer ends with", err)
		}
		if n := len(b.Messages()); n != 3 {
			t.Errorf("%d messages arrive, want 3", n)
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("the end waits %v", d)
		}
	})
}

// Short Sends that are done have no completion when the queue pair goes into error. So the end
// of the connection does not wait for one, and frees everything at once, also if a chain was
// posted before them.
func TestPeerLeavesAfterShortSends(t *testing.T) {
	for name, chain := range map[string]bool{"short Sends alone": false, "behind a chain": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				dialer, acceptor := pair(t, d)
				if chain {
					if err := acceptor.Send([]byte("chain")); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					if !acceptor.Conn().SendShort([][]byte{[]byte("short")}, 0) {
						t.Fatal("a short Send is not taken")
					}
				}
				synctest.Wait()
				begun := time.Now() // synctest's fake time
				dialer.Conn().Disconnect()
				if err := acceptor.End(); err != nil {
					t.Error("this side ends with", err)
				}
				dialer.End()
				synctest.Wait()
				if n := d.Left().Conns; n != 0 {
					t.Errorf("%d connections keep their queues", n)
				}
				if d := time.Since(begun); d != 0 {
					t.Errorf("the end waits %v", d)
				}
			})
		})
	}
}

// After an address change, the connection ends on both sides.
func TestAddressChangeEndsBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		a, b := pair(t, d)
		d.Tell(device.AddrChange)
		for _, p := range []*rdmatest.Peer{a, b} {
			if err := p.End(); err == nil {
				t.Error("a connection ends in order")
			}
		}
	})
}

// A connection that cannot wait for completions ends with that error. All its work comes back.
func TestDeafConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		d.Deaf = syscall.ENOSPC
		a, b := pair(t, d)
		sent := a.Post(rdmatest.SendOf([]byte("late")))
		// The side that ends second may hear of the first one's end before its own fault.
		if one, other := a.End(), b.End(); !errors.Is(one, syscall.ENOSPC) && !errors.Is(other, syscall.ENOSPC) {
			t.Errorf("the end is told as %v and %v, want %v", one, other, syscall.ENOSPC)
		}
		<-sent
	})
}

// If each poll fails, the connection ends with that error, after a few polls.
func TestPollThatFailsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		var failing atomic.Bool
		var polls atomic.Int64
		d.Fail = func(call string) error {
			if call != "Poll" || !failing.Load() {
				return nil
			}
			if polls.Add(1) > 1000 {
				panic("the connections poll without end")
			}
			return syscall.EIO
		}
		a, b := pair(t, d)
		failing.Store(true)
		a.Post(rdmatest.SendOf([]byte("not to be confirmed")))
		if err := a.End(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the end is told as %v, want %v", err, syscall.EIO)
		}
		b.End()
	})
}
