package rpc

import (
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// A pace adapts the number of workers that run calls to the load of the processors. Most calls that
// may block wait for disks, and need many workers. If they need processors instead, many workers
// delay each other and every call that arrives. So when more goroutines are ready to run than there
// are processors, fewer workers run calls, and the other calls wait in their lanes, where clients
// take turns. When no goroutine is ready to run, more workers run calls again. Threads that use the
// processors in system calls count as goroutines. executor.mu guards a pace.
type pace struct {
	most       int // number of workers that may run calls, without the stuck ones
	stuck      int // workers whose call has run for longer than stuckAfter
	processors int
	ready      func() int // returns the number of goroutines that are ready to run
	checked    time.Time
	// beyond is how many threads more than processors were running at counted: see countThreads. It is 0
	// unless a call has run for longer than stuckAfter. counts is false if Config.Ready is set.
	beyond  atomic.Int64
	counted time.Time
	counts  bool
}

// stuckAfter is the time after which the executor assumes that a running call waits for something
// other than a processor. Programs interrupt calls that compute for longer (Call.Resume).
const stuckAfter = 250 * time.Millisecond

func (p *pace) open(cfg *Config) {
	p.most, p.processors, p.ready, p.counts = cfg.Workers, cfg.Processors, cfg.Ready, cfg.Ready == nil
	if p.ready == nil {
		sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
		p.ready = func() int {
			metrics.Read(sample)
			return int(sample[0].Value.Uint64())
		}
	}
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
	switch oldest := x.busy.First; {
	case !p.counts:
	case oldest == nil || now.Sub(oldest.since) <= stuckAfter:
		p.beyond.Store(0)
	case now.Sub(p.counted) >= countEvery && !x.closed:
		p.counted = now
		x.wg.Add(1)
		go x.countThreads()
	}
	switch ready := p.ready() + int(p.beyond.Load()); {
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
// in all lanes together. Calls that use the processors in system calls are not stuck. The executor knows how
// many these are, but not which, so it takes those that began last.
func (x *executor) countStuck(now time.Time) {
	x.pace.stuck = 0
	for _, l := range x.lanes {
		l.stuck = 0
	}
	late := 0
	for w := x.busy.First; w != nil && now.Sub(w.since) > stuckAfter; w = w.Next { // the oldest first
		late++
	}
	late -= int(x.pace.beyond.Load())
	for w := x.busy.First; w != nil && x.pace.stuck < late; w = w.Next {
		w.lane.stuck++
		x.pace.stuck++
	}
}
