package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// durations are histograms of the durations of calls, one for each procedure that was called.
// They exist only if metrics are served.
type durations struct {
	*prometheus.HistogramVec
	// The map has the histogram of each procedure, by the version of the program and then by the
	// number of the procedure. Calls read it without a lock.
	of map[programVersion][]atomic.Pointer[prometheus.Observer]
}

type programVersion struct{ number, version uint32 }

// durationMetric describes the histograms, for documentation and for Prometheus.
var durationMetric = metric{
	name: "nfsrdmad_call_seconds", help: "How long calls took the server.", labels: []string{"program", "procedure"},
	meaning: "histogram of the time that the server took for calls, without the time on the network",
}

func newDurations() *durations {
	return &durations{
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: durationMetric.name, Help: durationMetric.help,
			// Powers of two, from 4.096 us to about 17 s.
			Buckets: prometheus.ExponentialBuckets(4096e-9, 2, 23),
		}, durationMetric.labels),
		make(map[programVersion][]atomic.Pointer[prometheus.Observer]),
	}
}

// add allocates the entries for the procedures of a program. It is called before the first call.
func (d *durations) add(p rpc.Program) {
	_, version := p.Versions()
	d.of[programVersion{p.Number(), version}] = make([]atomic.Pointer[prometheus.Observer], len(p.Binding(version).Procedures))
}

// observe adds a call's duration to the histogram of its procedure. It is the callback
// rpc.Config.Observe.
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
