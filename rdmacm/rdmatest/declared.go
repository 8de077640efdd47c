package rdmatest

import (
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// declared are the shortcomings that the device under test declares.
type declared struct {
	mu  sync.Mutex
	all []rdmacm.Shortcoming
	met map[rdmacm.Shortcoming]bool
}

// add notes the shortcomings that c declares. If a test runs one rule alone, d is nil.
func (d *declared) add(c rdmacm.Conn) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = c.Carrier().Shortcomings
}

// shown asserts that the tests met each shortcoming.
func (d *declared) shown(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		if !d.met[x] {
			t.Errorf("the device declares that %q, and keeps that rule throughout", x)
		}
	}
}

// lacks reports whether the device of p declares the shortcoming x, and notes that the test has
// met it.
func (s *suite) lacks(p *Peer, x rdmacm.Shortcoming) bool {
	if !slices.Contains(p.Conn().Carrier().Shortcomings, x) {
		return false
	}
	s.declared.mu.Lock()
	defer s.declared.mu.Unlock()
	s.declared.met[x] = true
	return true
}
