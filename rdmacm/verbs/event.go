package verbs

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// faults counts connections that did not come about, and those that ended by a fault.
type faults struct{ setup, ended atomic.Uint64 }

// event counts an event and passes it on.
func (p *Provider) event(e rdmacm.Event) {
	switch {
	case e.Kind == rdmacm.EventSetupFailed, e.Kind == rdmacm.EventRejected:
		p.faults.setup.Add(1)
	case e.Kind == rdmacm.EventClosed && e.Fault():
		p.faults.ended.Add(1)
	}
	if p.cfg.Event != nil {
		p.cfg.Event(e)
	}
}

// Faults counts what peers did that a connection could not go on with.
func (p *Provider) Faults() []rdmacm.Count {
	return []rdmacm.Count{{What: "setup", N: p.faults.setup.Load()}, {What: "ended", N: p.faults.ended.Load()}}
}
