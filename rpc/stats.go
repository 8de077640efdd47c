package rpc

import (
	"sync/atomic"
	"time"
)

// Status is how a call ended, for counters and observers.
type Status uint8

// Statuses. The first six are those of AcceptStat.
const (
	StatusSuccess Status = iota
	StatusProgUnavail
	StatusProgMismatch
	StatusProcUnavail
	StatusGarbageArgs
	StatusSystemErr
	// StatusAuthError and StatusRPCMismatch: MSG_DENIED.
	StatusAuthError
	StatusRPCMismatch
	// The Refusals.
	StatusNotACall
	StatusRefusedChunk
	StatusRefusedRoom
	// StatusDropped: no answer, by the program's will or because the server
	// ends.
	StatusDropped
	// StatusReplayed: answered from the duplicate-request cache.
	StatusReplayed
	// StatusFailed: executed, with results that say that it failed (of programs
	// that tell: Outcome.Failed).
	StatusFailed

	statuses
)

var statusNames = [statuses]string{
	"success", "prog_unavail", "prog_mismatch", "proc_unavail", "garbage_args", "system_err",
	"auth_error", "rpc_mismatch", "not_a_call", "refused_chunk", "refused_room",
	"dropped", "replayed", "failed",
}

// String is the status as a metric's label has it.
func (s Status) String() string {
	if s < statuses {
		return statusNames[s]
	}
	return "unknown"
}

// counts is calls by status.
type counts [statuses]atomic.Uint64

// ProcedureStats are the calls of one procedure, by Status.
type ProcedureStats struct {
	Program, Version, Procedure uint32
	Name                        string
	Calls                       [statuses]uint64
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Procedures that were called at least once.
	Procedures []ProcedureStats
	// Unknown are the calls that named no procedure served here, by Status.
	Unknown [statuses]uint64
	// InProgress are the calls that Serve has and that are not answered yet.
	InProgress int64
	// Executor: goroutines that run calls or wait for some, those that run
	// one now, and the calls that wait for a goroutine.
	Workers, Running, Queued int
	// InPlace are the calls answered on the goroutine that received them;
	// Handed those that went to the executor, of which Lent ran on that goroutine all
	// the same, and of them Replaced took so long that their connection got another one.
	InPlace, Handed, Lent, Replaced uint64
	// Overflows are results larger than their Binding says: faults of ours.
	Overflows uint64
	// Panics are the calls whose Program panicked: faults of ours as well.
	Panics     uint64
	ReplyCache ReplyCacheStats
}

// ReplyCacheStats are the counters of the duplicate-request cache.
type ReplyCacheStats struct {
	// Hits were answered from the cache; Joined found their call running, and
	// got its answer; Misses were new.
	Hits, Joined, Misses uint64
	// Lagging were not executed, because a newer connection of the client makes
	// the calls of theirs.
	Lagging uint64
	// Young are replies that made room for newer ones although their connection
	// has no more than it may have calls under way: the cache is too small.
	// Surplus are those that it had beyond that. Expired were kept long enough;
	// Oversize were not kept because they are larger than the cache lets one be.
	Young, Surplus, Expired, Oversize uint64
	Entries                           int
	Bytes                             int64
}

// LaneStats are the calls that may block in one lane, as Outcome.Lane names it.
type LaneStats struct {
	Lane any
	// Running have a goroutine, Queued wait for one.
	Running, Queued int
	// Oldest is for how long the call has had its goroutine that has had it
	// longest.
	Oldest time.Duration
}

// Lanes are those that have calls at this moment, in no order.
func (s *Server) Lanes() []LaneStats { return s.exec.inLanes(time.Now()) }

// Event tells an observer how one call ended.
type Event struct {
	Conn *Conn
	// Program and what follows are zero where the header could not be read.
	Program, Version, Procedure uint32
	// Name is the procedure's, or empty where it is not served.
	Name   string
	Status Status
	// Nanoseconds is how long the call was with Serve, 0 where it did not
	// come so far.
	Nanoseconds int64
}

// Stats returns the counters of this moment.
func (s *Server) Stats() Stats {
	st := Stats{
		InProgress: s.inProgress.Load(),
		InPlace:    s.inPlace.Load(),
		Handed:     s.handed.Load(),
		Overflows:  s.overflows.Load(),
		Panics:     s.panics.count.Load(),
		ReplyCache: s.replies.stats(),
	}
	st.Workers, st.Running, st.Queued = s.exec.depth()
	st.Lent, st.Replaced = s.exec.turnCounts()
	st.Unknown = s.unknown.read()
	for _, p := range s.table.Load().numbers {
		for _, v := range p.versions {
			for i := range v.rows {
				r := &v.rows[i]
				ps := ProcedureStats{
					Program: p.number, Version: v.number, Procedure: uint32(i),
					Name: r.Name, Calls: r.counts.read(),
				}
				if ps.Calls != [statuses]uint64{} {
					st.Procedures = append(st.Procedures, ps)
				}
			}
		}
	}
	return st
}

func (c *counts) read() (n [statuses]uint64) {
	for i := range c {
		n[i] = c[i].Load()
	}
	return n
}
