package rpc

import (
	"sync/atomic"
	"time"
)

// Status is the way in which a call ended, for counters and observers.
type Status uint8

// Statuses. The first six have the same numbers as the values of AcceptStat.
const (
	StatusSuccess Status = iota
	StatusProgUnavail
	StatusProgMismatch
	StatusProcUnavail
	StatusGarbageArgs
	StatusSystemErr
	// For StatusAuthError and StatusRPCMismatch, the reply was MSG_DENIED.
	StatusAuthError
	StatusRPCMismatch
	// The next three are one status for each Refusal, in the order of the Refusals.
	StatusNotACall
	StatusRefusedChunk
	StatusRefusedRoom
	// StatusDropped means that the call got no reply: its Protection or its program dropped it, its
	// connection ended, or the server is closing.
	StatusDropped
	// StatusReplayed means that the reply came from the duplicate-request cache.
	StatusReplayed
	// StatusFailed means that the call was executed, and that its results report a failure
	// (Outcome.Failed).
	StatusFailed

	statuses
)

var statusNames = [statuses]string{
	"success", "prog_unavail", "prog_mismatch", "proc_unavail", "garbage_args", "system_err",
	"auth_error", "rpc_mismatch", "not_a_call", "refused_chunk", "refused_room",
	"dropped", "replayed", "failed",
}

// String returns the status as it appears in the labels of metrics.
func (s Status) String() string {
	if s < statuses {
		return statusNames[s]
	}
	return "unknown"
}

// counts counts calls by status.
type counts [statuses]atomic.Uint64

// ProcedureStats has the number of calls of one procedure, by Status.
type ProcedureStats struct {
	Program, Version, Procedure uint32
	Name                        string
	Calls                       [statuses]uint64
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Procedures lists the procedures that were called at least once.
	Procedures []ProcedureStats
	// Unknown counts the calls to procedures that this Server does not serve, by Status.
	Unknown [statuses]uint64
	// InProgress is the number of calls that were passed to Serve and have no reply yet.
	InProgress int64
	// Workers is the number of the executor's goroutines. Running is the number of those that run a
	// call now. Queued is the number of calls that wait for such a goroutine.
	Workers, Running, Queued int
	// InPlace counts the calls answered on the goroutine that received them, without the executor.
	// Handed counts the calls passed to the executor, because they would have blocked. Lent counts
	// the calls that ran as a Turn, and Replaced those among them that took so long that their
	// connection got another receiving goroutine.
	InPlace, Handed, Lent, Replaced uint64
	// Overflows counts results that were larger than their Binding allows. Each is a bug of the
	// program.
	Overflows uint64
	// Panics counts the calls whose Program panicked. Each is a bug of the program.
	Panics     uint64
	ReplyCache ReplyCacheStats
	// Waits are the waits of the calls that did not end at once, on the goroutine that received them.
	Waits [reasons]WaitStats
}

// ReplyCacheStats are the counters of the duplicate-request cache.
type ReplyCacheStats struct {
	// Hits counts repeated calls that were answered from the cache. Joined counts calls that waited
	// for the end of a running call with the same replyKey. Misses counts new calls.
	Hits, Joined, Misses uint64
	// Lagging counts calls that were not executed because their client repeats its calls on a newer
	// connection.
	Lagging uint64
	// The last replies of a connection, as many as it may have outstanding calls, are its safe
	// replies. Young counts safe replies that were deleted for lack of memory: the cache is too
	// small. Surplus counts older replies that were deleted for lack of memory. Expired counts
	// replies that were deleted because of their age. Oversize counts replies that were not stored
	// because each would take more than a quarter of the cache.
	Young, Surplus, Expired, Oversize uint64
	Entries                           int
	Bytes                             int64
}

// LaneStats describes the calls in one lane of the executor.
type LaneStats struct {
	Lane any
	// Running is the number of calls that have a worker, Queued the number of calls that wait for
	// one.
	Running, Queued int
	// Oldest is the time for which the oldest running call has had its worker.
	Oldest time.Duration
}

// Lanes returns the lanes that have calls now, in no particular order.
func (s *Server) Lanes() []LaneStats { return s.exec.inLanes(time.Now()) }

// Event describes the end of one call to an observer.
type Event struct {
	Conn *Conn
	// Program, Version and Procedure are zero if the header could not be decoded.
	Program, Version, Procedure uint32
	// Name is the procedure's name, or empty if this Server does not serve the procedure.
	Name   string
	Status Status
	// Nanoseconds is the time from the start of Serve to the end of the call, or 0 if Serve was not
	// called.
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
	s.exec.count(&st)
	s.apart.count(&st)
	st.Unknown = s.unknown.read()
	for _, v := range s.table.Load().versions {
		for i := range v.procedures {
			r := &v.procedures[i]
			ps := ProcedureStats{
				Program: v.number, Version: v.version, Procedure: uint32(i),
				Name: r.Name, Calls: r.counts.read(),
			}
			if ps.Calls != [statuses]uint64{} {
				st.Procedures = append(st.Procedures, ps)
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
