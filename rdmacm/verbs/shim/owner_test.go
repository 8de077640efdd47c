//go:build verbs

package shim_test

import (
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

var address = netip.MustParseAddr("192.0.2.1")

// A scene has an object of each kind that constructors need.
type scene struct {
	t       *testing.T
	library device.Library
	channel device.Channel
	id      device.ID
	domain  device.Domain
	ended   chan struct{}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, ended: make(chan struct{})}
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.library, err = shim.Load()
	check()
	s.channel, err = s.library.Open()
	check()
	go func() {
		defer close(s.ended)
		s.channel.Events(func(device.Event) {})
	}()
	s.id, err = s.channel.Resolve(netip.AddrPortFrom(address, 20049), time.Second)
	check()
	s.domain, err = s.id.OpenDomain()
	check()
	return s
}

func (s *scene) close() {
	s.t.Helper()
	if err := s.domain.Close(); err != nil {
		s.t.Error(err)
	}
	s.id.Close()
	s.channel.Close()
	<-s.ended
	if n := atomic.LoadInt32(&libraries.objects); n != 0 {
		s.t.Errorf("%d objects of the libraries are left", n)
	}
}

// descriptors returns the number of open descriptors, and the lowest number that none has.
func descriptors(t *testing.T) (open int, next uint64) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return len(all), uint64(f.Fd())
}

// constructors make each kind of object. They return the function that closes the object.
var constructors = map[string]func(s *scene) (func(), error){
	"Open": func(s *scene) (func(), error) {
		c, err := s.library.Open()
		if err != nil {
			return nil, err
		}
		return c.Close, nil
	},
	"Listen": func(s *scene) (func(), error) {
		i, err := s.channel.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), 20049), true, 1)
		if err != nil {
			return nil, err
		}
		return i.Close, nil
	},
	"Resolve": func(s *scene) (func(), error) {
		i, err := s.channel.Resolve(netip.AddrPortFrom(address, 20049), time.Second)
		if err != nil {
			return nil, err
		}
		return i.Close, nil
	},
	"Carrier": func(s *scene) (func(), error) {
		d, err := s.channel.Carrier(address)
		if err != nil {
			return nil, err
		}
		return d.Close, nil
	},
	"OpenDomain": func(s *scene) (func(), error) {
		d, err := s.id.OpenDomain()
		if err != nil {
			return nil, err
		}
		return func() { d.Close() }, nil
	},
	"Register": func(s *scene) (func(), error) {
		r, err := s.domain.Register(make([]byte, 64), device.LocalWrite)
		if err != nil {
			return nil, err
		}
		return func() { r.Deregister() }, nil
	},
	// The ID of a connection is closed with it, so an ID of its own is made while nothing fails.
	"Create": func(s *scene) (func(), error) {
		thread := atomic.SwapInt32(&libraries.thread, 0)
		var few, all unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NOFILE, &few)
		all = unix.Rlimit{Cur: few.Max, Max: few.Max}
		unix.Setrlimit(unix.RLIMIT_NOFILE, &all)
		i, err := s.channel.Resolve(netip.AddrPortFrom(address, 20049), time.Second)
		unix.Setrlimit(unix.RLIMIT_NOFILE, &few)
		if err != nil {
			s.t.Fatal(err)
		}
		atomic.StoreInt32(&libraries.thread, thread)
		c, err := i.Create(s.domain, device.Caps{Sends: 16, Receives: 16, SGEs: 1})
		if err != nil {
			if i.Number() == 0 {
				s.t.Error("the ID has lost its number")
			}
			i.Reject(nil)
			i.Close()
			return nil, err
		}
		return func() {
			c.DestroyQueues()
			c.Destroy()
		}, nil
	},
}

// A constructor that fails, at whichever of its calls, leaves what it was given to its caller, and
// nothing else. Afterwards the caller can use all of it, and close all of it once.
func TestFailedConstructorLeavesNothing(t *testing.T) {
	for name, make := range constructors {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			defer s.close()
			tried := func(what string, failure unix.Errno, limit func(call func())) (failed bool) {
				before, _ := descriptors(t)
				objects := atomic.LoadInt32(&libraries.objects)
				var end func()
				var err error
				limit(func() { end, err = make(s) })
				if err == nil {
					end()
				} else if !errors.Is(err, failure) {
					t.Errorf("%s: it fails with %v, want %v", what, err, failure)
				}
				if now, _ := descriptors(t); now != before {
					t.Errorf("%s: %d descriptors became %d", what, before, now)
				}
				if now := atomic.LoadInt32(&libraries.objects); now != objects {
					t.Errorf("%s: %d objects became %d", what, objects, now)
				}
				return err != nil
			}
			n := 0
			if tried("nothing fails", 0, func(call func()) { n = failing(0, 0, call) }) || n == 0 {
				t.Fatalf("it fails, or none of its %d calls can", n)
			}
			for at := 1; at <= n; at++ {
				for _, e := range []unix.Errno{unix.ENOMEM, unix.EMFILE, unix.EIO} {
					want := e
					if at == 1 && !sanitized {
						want = unix.ENOMEM // calloc is the first
					}
					if !tried("a call fails", want, func(call func()) { failing(at, e, call) }) {
						t.Errorf("it succeeds although call %d of %d fails", at, n)
					}
				}
			}
			tried("epoll refuses the descriptor", unix.EPERM, func(call func()) {
				libraries.deaf = 1
				defer func() { libraries.deaf = 0 }()
				call()
			})
			for left := uint64(0); left < 4; left++ {
				tried("few descriptors", unix.EMFILE, func(call func()) {
					var all unix.Rlimit
					unix.Getrlimit(unix.RLIMIT_NOFILE, &all)
					defer unix.Setrlimit(unix.RLIMIT_NOFILE, &all)
					_, next := descriptors(t)
					unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: next + left, Max: all.Max})
					call()
				})
			}
		})
	}
}

// A connection takes one descriptor, and none after DestroyQueues: server divides the descriptors of the
// process by that. A provider has one for its events. An ID, a device, a domain and a region take none.
func TestDescriptorsOfObjects(t *testing.T) {
	s := newScene(t)
	defer s.close()
	for name, make := range constructors {
		before, _ := descriptors(t)
		end, err := make(s)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if name == "Create" || name == "Open" {
			want = 1
		}
		if now, _ := descriptors(t); now-before != want {
			t.Errorf("%s takes %d descriptors, want %d", name, now-before, want)
		}
		end()
		if now, _ := descriptors(t); now != before {
			t.Errorf("%s: %d descriptors became %d", name, before, now)
		}
	}
}

// If an object of a connection cannot be destroyed, DestroyQueues says so, and can be called again. If a
// region or a domain cannot, it is still its owner's.
func TestFailedDestructionIsRepeated(t *testing.T) {
	s := newScene(t)
	defer s.close()
	for at := 1; at <= 4; at++ { // queue pair, two completion queues, channel
		i, err := s.channel.Resolve(netip.AddrPortFrom(address, 20049), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := descriptors(t)
		c, err := i.Create(s.domain, device.Caps{Sends: 16, Receives: 16, SGEs: 1})
		if err != nil {
			t.Fatal(err)
		}
		failing(at, unix.ETIMEDOUT, func() { err = c.DestroyQueues() })
		if !errors.Is(err, unix.ETIMEDOUT) {
			t.Errorf("destruction %d fails, and DestroyQueues returns %v", at, err)
		}
		if now, _ := descriptors(t); now != before {
			t.Errorf("destruction %d fails: %d descriptors became %d", at, before, now)
		}
		if err := c.DestroyQueues(); err != nil {
			t.Error(err)
		}
		c.Destroy()
	}
	d, err := s.id.OpenDomain()
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Register(make([]byte, 64), device.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	failing(1, unix.EIO, func() { err = r.Deregister() })
	if again := r.Deregister(); !errors.Is(err, unix.EIO) || again != nil {
		t.Errorf("region: %v, then %v", err, again)
	}
	failing(1, unix.EIO, func() { err = d.Close() })
	if again := d.Close(); !errors.Is(err, unix.EIO) || again != nil {
		t.Errorf("domain: %v, then %v", err, again)
	}
}

// If there is no memory when events are taken, a connection request is told later, or its peer is
// refused. The events behind it are told all the same.
func TestEventWithoutMemory(t *testing.T) {
	for _, c := range []struct {
		name      string
		call      int // that fails
		want      int // requests told, of two
		sanitized bool
	}{
		{"rdma_get_cm_event", 1, 2, true},
		{"calloc", 2, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if sanitized && !c.sanitized {
				t.Skip("AddressSanitizer replaces calloc itself")
			}
			library, err := shim.Load()
			if err != nil {
				t.Fatal(err)
			}
			channel, err := library.Open()
			if err != nil {
				t.Fatal(err)
			}
			libraries.requests = 2
			l, err := channel.Listen(netip.AddrPortFrom(address, 20049), true, 2)
			libraries.requests = 0
			if err != nil {
				t.Fatal(err)
			}
			told := make(chan device.ID, 2)
			ended := make(chan error)
			go failing(c.call, unix.ENOMEM, func() {
				ended <- channel.Events(func(e device.Event) { told <- e.Made })
			})
			await.Until(t, "the channel has no more events", func() bool { return len(told) == c.want })
			for range c.want {
				(<-told).Close()
			}
			await.Until(t, "the other request is refused", func() bool { return atomic.LoadInt32(&libraries.objects) == 2 })
			l.Close()
			channel.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := atomic.LoadInt32(&libraries.objects); n != 0 {
				t.Errorf("%d objects of the libraries are left", n)
			}
		})
	}
}
