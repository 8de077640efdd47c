// Package groups is a fake of the look-up of users' groups. A test determines when a look-up gets
// its result, and when it fails.
package groups

import (
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Fake implements export.Groups. Its methods may be called from any goroutine.
type Fake struct {
	mu      sync.Mutex
	known   map[uint32][]uint32
	delayed map[uint32]bool
	waiting []func()
	asked   int
}

// Know sets the groups of a user, and wakes the calls that wait for them.
func (f *Fake) Know(uid uint32, groups ...uint32) {
	f.change(func() {
		if f.known == nil {
			f.known = make(map[uint32][]uint32)
		}
		f.known[uid] = groups
		delete(f.delayed, uid)
	})
}

// Delay makes the look-up of a user's groups fail with vfs.ErrDelay, and wakes the calls that wait
// for it.
func (f *Fake) Delay(uid uint32) {
	f.change(func() {
		if f.delayed == nil {
			f.delayed = make(map[uint32]bool)
		}
		f.delayed[uid] = true
		delete(f.known, uid)
	})
}

func (f *Fake) change(how func()) {
	f.mu.Lock()
	how()
	waiting := f.waiting
	f.waiting = nil
	f.mu.Unlock()
	for _, resume := range waiting {
		resume()
	}
}

// Waiting returns the number of calls that wait for a look-up.
func (f *Fake) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}

// Asked returns the number of look-ups so far.
func (f *Fake) Asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// Find implements export.Groups.
func (f *Fake) Find(_ netip.Addr, _ any, uid uint32) ([]uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	groups, ok := f.known[uid]
	switch {
	case ok:
		return groups, nil
	case f.delayed[uid]:
		return nil, vfs.ErrDelay
	}
	return nil, pending{f, uid}
}

// Delays implements export.Groups.
func (f *Fake) Delays(uid uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delayed[uid]
}

type pending struct {
	f   *Fake
	uid uint32
}

func (p pending) Error() string { return "the groups of a user are not known yet" }

// Await implements export.Pending.
func (p pending) Await(resume func()) {
	p.f.mu.Lock()
	_, known := p.f.known[p.uid]
	if known = known || p.f.delayed[p.uid]; !known {
		p.f.waiting = append(p.f.waiting, resume)
	}
	p.f.mu.Unlock()
	if known {
		resume()
	}
}
