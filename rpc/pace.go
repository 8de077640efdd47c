package rpc

import (
	"runtime/metrics"
	"time"
)

// A pace adapts the number of workers that run calls to the load of the processors. Calls that may
// block need many workers, because most of the workers wait for disks. If the calls need processors
// instead, many workers compete for the processors, and delay each other and every call that
// arrives. So when more goroutines are ready to run than there are processors, fewer workers run
// calls, and the other calls wait in their lanes, where clients take turns. When no goroutine is
// ready to run, more workers run calls again. executor.mu guards a pace.
type pace struct {
	most       int // number of workers that may run calls, without the stuck ones
	stuck      int // workers whose call has run for longer than stuckAfter
	processors int
	ready      func() int // returns the number of goroutines that are ready to run
	checked    time.Time
}

// stuckAfter is the time after which the executor assumes that a running call waits for something
// other than a processor. Programs interrupt calls that compute for longer (Call.Resume).
const stuckAfter = 250 * time.Millisecond

func newPace(cfg *Config) pace {
	p := pace{most: cfg.Workers, processors: cfg.Processors, ready: cfg.Ready}
	if p.ready == nil {
		sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
		p.ready = func() int {
			metrics.Read(sample)
			return int(sample[0].Value.Uint64())
		}
	}
	return p
}

// slowed reports whether fewer workers may run calls than Config.Workers allows.
func (x *executor) slowed() bool { return x.pace.most < x.workers }

// check adapts pace.most to the load of the processors, at most once in watchTick. Its lowest value
// is the number of processors: if that many calls compute, they use all processors. The caller holds
// x.mu.
func (x *executor) check(now time.Time) {
	p := &x.pace
	if x.busy.Len <= p.processors && !x.slowed() || now.Sub(p.checked) < watchTick {
		return
	}
	p.checked = now
	switch ready := p.ready(); {
	case ready > p.processors:
		p.most = max(p.processors, min(p.most, x.busy.Len-p.stuck)*3/4)
	case ready == 0 && x.slowed():
		p.most = min(x.workers, p.most+max(1, p.most/4))
	}
	if x.slowed() {
		x.countStuck(now)
		x.beginWatch()
	}
}

// countStuck counts the workers whose calls have run for longer than stuckAfter, in each lane and
// in all lanes together.
func (x *executor) countStuck(now time.Time) {
	x.pace.stuck = 0
	for _, l := range x.lanes {
		l.stuck = 0
	}
	for w := x.busy.First; w != nil; w = w.Next {
		if now.Sub(w.since) > stuckAfter {
			w.lane.stuck++
			x.pace.stuck++
		}
	}
}
