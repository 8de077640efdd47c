package server

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// durationStripes is the number of histograms of each procedure. Connections use different ones, by the connection's
// ID, so that processors rarely write to the same memory.
const durationStripes = 8

// durations are histograms of the durations of calls, found by index. They exist once metrics or the status page are
// served, or if the program that embeds the server has the metrics.
type durations [durationStripes][]programDurations

// programDurations has the histograms of one version of a program, by procedure.
type programDurations struct {
	program, version uint32
	procedures       []histogram.Histogram
}

// procedureDurations has how long the calls of one procedure took.
type procedureDurations struct {
	program, procedure string
	histogram.Snapshot
}

// mostProcedures is more than the number of procedures of any program here.
const mostProcedures = 32

// measureDurations makes the server measure how long calls and operations take, from now on. The second time it does
// nothing. It is called before Serve, and while reloads.applying is held.
func (s *Server) measureDurations() {
	if s.durations.Load() != nil {
		return
	}
	d := newDurations()
	s.durations.Store(d)
	s.rpc.SetObserve(d.observe)
	if s.nfs4 != nil {
		s.nfs4.MeasureDurations()
	}
}

func newDurations() *durations {
	d := new(durations)
	for i := range d {
		for _, p := range programs {
			d[i] = append(d[i], programDurations{p.number, p.version, make([]histogram.Histogram, mostProcedures)})
		}
	}
	return d
}

// observe adds a call's duration to the histogram of its procedure. It is the callback rpc.Config.Observe.
func (d *durations) observe(e *rpc.Event) {
	if e.Nanoseconds == 0 || e.Name == "" || e.Procedure >= mostProcedures {
		return
	}
	all := d[e.Conn.ID%durationStripes]
	for i := range all {
		if p := &all[i]; p.program == e.Program && p.version == e.Version {
			p.procedures[e.Procedure].Add(time.Duration(e.Nanoseconds))
			return
		}
	}
}

// read returns the durations of the procedures that were called. A procedure of several versions of a program is one
// procedure if it has the same name in them: NULL.
func (d *durations) read(called []rpc.ProcedureStats) (all []procedureDurations) {
	at := make(map[[2]string]int)
	for _, c := range called {
		if c.Procedure >= mostProcedures {
			continue
		}
		var s histogram.Snapshot
		for i := range d {
			for k := range d[i] {
				if p := &d[i][k]; p.program == c.Program && p.version == c.Version {
					s.Add(&p.procedures[c.Procedure])
				}
			}
		}
		if s.Count() == 0 {
			continue
		}
		name := [2]string{programName(c.Program), c.Name}
		if k, there := at[name]; there {
			all[k].Merge(&s)
			continue
		}
		at[name] = len(all)
		all = append(all, procedureDurations{name[0], name[1], s})
	}
	return all
}
