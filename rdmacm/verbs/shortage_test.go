package verbs_test

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// evictions is a Seats with a seat for each connection. It counts the calls of EvictStranger.
type evictions struct {
	oneSeat
	evicted atomic.Int32
}

func (s *evictions) Arrive(netip.AddrPort, rdmacm.Holder) (rdmacm.Seat, error) {
	return rdmacm.Uncounted, nil
}
func (s *evictions) EvictStranger() { s.evicted.Add(1) }

// If a connection is refused because something is used up that each connection takes, one stranger makes
// room for the client's next attempt, whichever call failed for want of it.
func TestStrangerMakesRoom(t *testing.T) {
	for _, call := range []string{"Attributes", "Carrier", "OpenDomain", "Register", "Create", "Accept"} {
		for failure, evicts := range map[error]int32{
			syscall.EMFILE: 1, syscall.ENFILE: 1, syscall.ENOMEM: 1, syscall.ENOSPC: 1, syscall.EAGAIN: 1, syscall.EIO: 0,
		} {
			t.Run(call+"/"+failure.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := fakedevice.New(true) // a connection over iWARP has a domain of its own
					var failing atomic.Bool
					d.Fail = func(name string) error {
						if name == call && failing.Load() {
							return failure
						}
						return nil
					}
					seats := &evictions{}
					p := open(t, d, seats)
					l := listen(t, p)
					param := peerParam().ConnParam
					param.Handler = handler{}
					refused := make(chan error)
					go func() {
						r, err := l.Accept()
						if err == nil {
							failing.Store(true)
							_, err = r.Accept(param)
							failing.Store(false)
						}
						refused <- err
					}()
					client, err := verbs.New(verbs.Config{Library: d})
					if err != nil {
						t.Fatal(err)
					}
					defer client.Close()
					if _, err := client.Dial(t.Context(), l.Addr(), param); err == nil {
						t.Error("Dial returns a connection")
					}
					if err := <-refused; !errors.Is(err, failure) {
						t.Errorf("Accept returns %v, want %v", err, failure)
					}
					if n := seats.evicted.Load(); n != evicts {
						t.Errorf("%d strangers make room, want %d", n, evicts)
					}
					l.Close()
				})
			})
		}
	}
}
