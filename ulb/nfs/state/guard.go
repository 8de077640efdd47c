package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A guard is the Manager while this goroutine holds its mutex (Manager.mu). A function that needs
// the mutex has a guard as its receiver or as an argument. It must not call an exported method of
// the Manager, because that may take the mutex.
//
// The guard also collects the work to do after the mutex is released.
type guard struct {
	*Manager
	closing []vfs.File
	// claims are the local claims of files in which locks ended, with the byte ranges of these
	// locks.
	claims  map[*localClaim][]byterange.Range
	gone    []*Client
	notices []LockNotice
	events  []*Event
	late    courtesy
}

// acquire takes the mutex. The caller calls release.
func (m *Manager) acquire() *guard {
	m.mu.Lock()
	return &guard{Manager: m}
}

// release releases the mutex, and does the collected work.
func (g *guard) release() {
	g.mu.Unlock()
	g.finish()
}

// finish does the collected work. It is called without the mutex.
func (g *guard) finish() {
	for c, dropped := range g.claims {
		g.giveUp(c, dropped)
	}
	for _, f := range g.closing {
		f.Close()
	}
	for _, c := range g.gone {
		if c.known.companion != nil {
			c.known.companion.Gone()
		}
	}
	if notify := g.files.notify.Load(); notify != nil {
		for _, n := range g.notices {
			(*notify)(n)
		}
	}
	for _, e := range g.events {
		g.tell(e)
	}
}

// close makes finish close a file; f may be nil.
func (g *guard) close(f vfs.File) {
	if f != nil {
		g.closing = append(g.closing, f)
	}
}

// giveUpLater makes finish give up the local claims on ranges of a file that are no longer locked.
func (g *guard) giveUpLater(key FileKey, dropped []byterange.Range) {
	c := g.files.claims[key]
	if c == nil || len(dropped) == 0 {
		return
	}
	if g.claims == nil {
		g.claims = make(map[*localClaim][]byterange.Range)
	}
	if g.claims[c] == nil {
		c.users++
	}
	g.claims[c] = append(g.claims[c], dropped...)
}
