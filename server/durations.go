package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// durations are histograms of how long calls took, one for each procedure that was
// called. They are asked for only where metrics are served.
type durations struct {
	*prometheus.HistogramVec
	// of each version of a program, by the number of the procedure: where a call finds its histogram
	// without a lock.
	of map[programVersion][]atomic.Pointer[prometheus.Observer]
}

type programVersion struct{ number, version uint32 }

// durationMetric describes them, for documentation and for Prometheus.
var durationMetric = metric{
	name: "nfsrdmad_call_seconds", help: "How long calls took the server.", labels: []string{"program", "procedure"},
	meaning: "histogram of how long calls took the server, the network aside",
}

func newDurations() *durations {
	return &durations{
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: durationMetric.name, Help: durationMetric.help,
			// Powers of two, from 4.096 us on to some 17 s.
			Buckets: prometheus.ExponentialBuckets(4096e-9, 2, 23),
		}, durationMetric.labels),
		make(map[programVersion][]atomic.Pointer[prometheus.Observer]),
	}
}

// add makes room for the procedures of a program. It comes before the first call.
func (d *durations) add(p rpc.Program) {
	_, version := p.Versions()
	d.of[programVersion{p.Number(), version}] = make([]atomic.Pointer[prometheus.Observer], len(p.Binding(version).Procedures))
}

// observe is rpc.Config.Observe.
func (d *durations) observe(e *rpc.Event) {
	of := d.of[programVersion{e.Program, e.Version}]
	if e.Nanoseconds == 0 || e.Name == "" || int(e.Procedure) >= len(of) {
		return
	}
	h := of[e.Procedure].Load()
	if h == nil {
		first := d.WithLabelValues(programName(e.Program), e.Name)
		h = &first
		of[e.Procedure].Store(h)
	}
	(*h).Observe(float64(e.Nanoseconds) / 1e9)
}
