package rdmatest

import (
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// declared are the shortcomings of the device that the suite runs over.
type declared struct {
	mu  sync.Mutex
	all []rdmacm.Shortcoming
	met map[rdmacm.Shortcoming]bool
}

// add notes what c declares. d is nil where a rule is tested by itself.
func (d *declared) add(c rdmacm.Conn) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = c.Carrier().Shortcomings
}

// shown asserts that each shortcoming was met.
func (d *declared) shown(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		if !d.met[x] {
			t.Errorf("the device declares that %q, and keeps that rule throughout", x)
		}
	}
}

// lacks says whether the device of p declares the shortcoming that the test has just met.
func (s *suite) lacks(p *Peer, x rdmacm.Shortcoming) bool {
	if !slices.Contains(p.Conn().Carrier().Shortcomings, x) {
		return false
	}
	s.declared.mu.Lock()
	defer s.declared.mu.Unlock()
	s.declared.met[x] = true
	return true
}
