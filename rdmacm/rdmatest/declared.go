package rdmatest

import (
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// declared holds the shortcomings that the device under test declares. met holds those that a
// test has observed.
type declared struct {
	mu  sync.Mutex
	all []rdmacm.Shortcoming
	met map[rdmacm.Shortcoming]bool
}

// add stores the shortcomings that c declares. d is nil if a test runs one rule without Run.
func (d *declared) add(c rdmacm.Conn) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = c.Carrier().Shortcomings
}

// shown fails the test if the device declares a shortcoming that no test has observed. Whether a test
// observes ReadsSeeLaterBytes depends on how fast the device's TCP sends, so shown only logs it.
func (d *declared) shown(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		switch {
		case x == rdmacm.ReadsSeeLaterBytes:
			t.Logf("%s: observed: %v", x, d.met[x])
		case !d.met[x]:
			t.Errorf("the device declares that %q, and keeps that rule throughout", x)
		}
	}
}

// lacks reports whether the device of p declares the shortcoming x. If so, it records that a
// test has observed x.
func (s *suite) lacks(p *Peer, x rdmacm.Shortcoming) bool {
	if !slices.Contains(p.Conn().Carrier().Shortcomings, x) {
		return false
	}
	s.declared.mu.Lock()
	defer s.declared.mu.Unlock()
	s.declared.met[x] = true
	return true
}
