package server

import (
	"math/bits"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// durations are histograms of how long calls took, one for each procedure. A
// call costs it two additions: it is asked for only where metrics are served.
type durations struct {
	nfs   [22]histogram
	mount [6]histogram
}

// Bounds of the buckets are powers of two, from 2^firstBucket ns (4 µs) on to
// some 17 s.
const (
	firstBucket = 12
	buckets     = 23
)

type histogram struct {
	name    atomic.Pointer[string]
	counts  [buckets + 1]atomic.Uint64 // the last for what took longer
	nanosec atomic.Int64
}

// observe is rpc.Config.Observe.
func (d *durations) observe(e *rpc.Event) {
	if e.Nanoseconds == 0 || e.Name == "" {
		return
	}
	var of []histogram
	switch programName(e.Program) {
	case "nfs":
		of = d.nfs[:]
	case "mount":
		of = d.mount[:]
	}
	if int(e.Procedure) >= len(of) {
		return
	}
	h := &of[e.Procedure]
	if h.name.Load() == nil {
		name := e.Name
		h.name.Store(&name)
	}
	h.counts[min(max(bits.Len64(uint64(e.Nanoseconds-1))-firstBucket, 0), buckets)].Add(1)
	h.nanosec.Add(e.Nanoseconds)
}

func (d *durations) collect(ch chan<- prometheus.Metric) {
	if d == nil {
		return
	}
	for program, of := range map[string][]histogram{"nfs": d.nfs[:], "mount": d.mount[:]} {
		for i := range of {
			h := &of[i]
			name := h.name.Load()
			if name == nil {
				continue
			}
			upTo, sum := make(map[float64]uint64, buckets), uint64(0)
			for b := range buckets {
				sum += h.counts[b].Load()
				upTo[float64(uint64(1)<<(firstBucket+b))/1e9] = sum
			}
			sum += h.counts[buckets].Load()
			ch <- prometheus.MustNewConstHistogram(descDuration, sum, float64(h.nanosec.Load())/1e9, upTo, program, *name)
		}
	}
}
