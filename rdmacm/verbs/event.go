package verbs

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// faults counts connections. The field setup counts those whose set-up failed or that the ULP
// rejected, and the field ended those that ended because of a fault.
type faults struct{ setup, ended atomic.Uint64 }

// event counts e if it is a fault, and passes it to Config.Event.
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

// Stats returns the provider's present counters.
func (p *Provider) Stats() rdmacm.Stats {
	s := rdmacm.Stats{
		Faults:      []rdmacm.Count{{What: "setup", N: p.faults.setup.Load()}, {What: "ended", N: p.faults.ended.Load()}},
		MemoryLimit: p.cfg.Memory,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Memory = p.memory.Held()
	for _, d := range p.devices {
		s.Devices = append(s.Devices, d.statsLocked())
	}
	return s
}

// statsLocked describes d for metrics. The caller holds Provider.mu.
func (d *rnic) statsLocked() rdmacm.DeviceStats {
	s := rdmacm.DeviceStats{Name: d.Name, Protocol: d.Protocol, Connections: d.connections, MaxConnections: d.QPs, Active: true}
	for _, active := range d.ports {
		s.Active = s.Active && active
	}
	for t, n := range d.events {
		s.Events = append(s.Events, rdmacm.Count{What: t.String(), N: n})
	}
	for i := range d.chunks {
		if d.chunks[i].Load() != nil {
			s.Registered += int64(d.chunkEnd(i) - i*chunkSize)
		}
	}
	return s
}
