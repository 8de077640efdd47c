package rpc

import (
	"sync/atomic"
	"time"
)

// Status is the way in which a call ended, for counters and observers.
type Status uint8

// Statuses. The first six are those of AcceptStat.
const (
	StatusSuccess Status = iota
	StatusProgUnavail
	StatusProgMismatch
	StatusProcUnavail
	StatusGarbageArgs
	StatusSystemErr
	// StatusAuthError and StatusRPCMismatch: answered with MSG_DENIED.
	StatusAuthError
	StatusRPCMismatch
	// One status for each Refusal, in the order of the Refusals.
	StatusNotACall
	StatusRefusedChunk
	StatusRefusedRoom
	// StatusDropped: no answer, because the program wants that or the server is ending.
	StatusDropped
	// StatusReplayed: answered from the duplicate-request cache.
	StatusReplayed
	// StatusFailed: executed, with results that report a failure, if the program says so
	// (Outcome.Failed).
	StatusFailed

	statuses
)

var statusNames = [statuses]string{
	"success", "prog_unavail", "prog_mismatch", "proc_unavail", "garbage_args", "system_err",
	"auth_error", "rpc_mismatch", "not_a_call", "refused_chunk", "refused_room",
	"dropped", "replayed", "failed",
}

// String returns the status as metrics label it.
func (s Status) String() string {
	if s < statuses {
		return statusNames[s]
	}
	return "unknown"
}

// counts counts calls by status.
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
	// Unknown counts the calls to procedures that are not served here, by Status.
	Unknown [statuses]uint64
	// InProgress counts the calls in Serve that are not answered yet.
	InProgress int64
	// Workers counts the executor's goroutines, Running those that run a call now, and Queued the
	// calls that wait for one.
	Workers, Running, Queued int
	// InPlace counts the calls answered on the goroutine that received them. Handed counts the
	// calls given to the executor. Lent counts those of Handed that still ran on the receiving
	// goroutine. Replaced counts those of Lent that took so long that their connection got
	// another goroutine.
	InPlace, Handed, Lent, Replaced uint64
	// Overflows counts results larger than their Binding allows: bugs of the server.
	Overflows uint64
	// Panics counts the calls whose Program panicked: bugs of the server as well.
	Panics     uint64
	ReplyCache ReplyCacheStats
}

// ReplyCacheStats are the counters of the duplicate-request cache.
type ReplyCacheStats struct {
	// Hits counts repeated calls answered from the cache, Joined those that found the first call
	// still running and got its answer, and Misses the new calls.
	Hits, Joined, Misses uint64
	// Lagging counts calls that were not executed because their client makes them on a newer
	// connection.
	Lagging uint64
	// Young counts safe replies that made room for newer ones: the cache is too small. (A
	// connection's last replies, as many as it may have calls under way, are safe.) Surplus
	// counts older ones that made room. Expired counts replies that were kept long enough;
	// Oversize those not kept because they exceed a quarter of the cache.
	Young, Surplus, Expired, Oversize uint64
	Entries                           int
	Bytes                             int64
}

// LaneStats counts the calls that may block in one lane.
type LaneStats struct {
	Lane any
	// Running have a worker; Queued wait for one.
	Running, Queued int
	// Oldest is how long the longest running call has had its worker.
	Oldest time.Duration
}

// Lanes returns the lanes that have calls now, in no order.
func (s *Server) Lanes() []LaneStats { return s.exec.inLanes(time.Now()) }

// Event describes the end of one call to an observer.
type Event struct {
	Conn *Conn
	// Program and the fields after it are zero if the header could not be read.
	Program, Version, Procedure uint32
	// Name is the procedure's name, or empty if the procedure is not served.
	Name   string
	Status Status
	// Nanoseconds is the time since Serve got the call; 0 if Serve did not get it.
	Nanoseconds int64
}

// Stats returns the current counters.
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
