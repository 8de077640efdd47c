package server

import (
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// callMetrics are the metrics about calls, operations, and what calls wait for.
var callMetrics = []metric{
	{name: "nfsrdmad_calls_total", help: "RPC calls that ended.", kind: counter,
		meaning: "calls that ended. `failed` is a MNT that was refused; any reply of an NFS procedure counts as `success`, even if it has an error status",
		labels:  []string{"program", "version", "procedure", "status"},
		read: func(c *counted, put put) {
			for _, p := range c.calls.Procedures {
				for status, n := range p.Calls {
					if n > 0 {
						put(float64(n), programName(p.Program), strconv.Itoa(int(p.Version)), p.Name, rpc.Status(status).String())
					}
				}
			}
		}},
	{name: "nfsrdmad_nfs4_operations_total", help: "Operations of NFSv4 that were executed.", kind: counter, labels: []string{"operation", "status"},
		meaning: "operations of NFSv4 that were executed, by result: `ok`, or the error without `NFS4ERR_`",
		read: func(c *counted, put put) {
			for _, o := range c.operations {
				put(float64(o.Count), strings.TrimPrefix(o.Operation.String(), "OP_"), statusLabel(o.Status.String(), o.Status == 0))
			}
		}},
	{name: "nfsrdmad_nfs3_operations_total", help: "Procedures of NFSv3 that were executed.", kind: counter, labels: []string{"operation", "status"},
		meaning: "procedures of NFSv3 that were executed, by result: `ok`, or the error without `NFS3ERR_`",
		read: func(c *counted, put put) {
			for _, o := range c.procedures {
				put(float64(o.Count), strings.TrimPrefix(o.Procedure.String(), "NFSPROC3_"), statusLabel(o.Status.String(), o.Status == 0))
			}
		}},
	{name: "nfsrdmad_call_seconds", help: "How long calls took the server.", labels: []string{"program", "procedure"},
		meaning: "histogram of the time that the server took for calls, without the time on the network",
		took: func(c *counted, put putDurations) {
			for i := range c.durations {
				d := &c.durations[i]
				put(&d.Snapshot, d.program, d.procedure)
			}
		}},
	{name: "nfsrdmad_nfs4_operation_seconds", help: "How long operations of NFSv4 took the server.", labels: []string{"operation"},
		meaning: "histogram of the time that the server took for operations of NFSv4, with all waits: the calls of NFSv4 are compounds, and have several. SEQUENCE and the operations that only set a file handle have none",
		took: func(c *counted, put putDurations) {
			for i := range c.took {
				put(&c.took[i].Snapshot, strings.TrimPrefix(c.took[i].Operation.String(), "OP_"))
			}
		}},
	{name: "nfsrdmad_calls_in_progress", help: "RPC calls being served.", kind: gauge,
		meaning: "calls in progress",
		read:    func(c *counted, put put) { put(float64(c.calls.InProgress)) }},
	{name: "nfsrdmad_calls_queued", help: "Calls that wait for a thread that may block.", kind: gauge,
		meaning: "calls that wait for a thread, because they may block",
		read:    func(c *counted, put put) { put(float64(c.calls.Queued)) }},
	{name: "nfsrdmad_waits", help: "Calls that wait now, by what they wait for.", kind: gauge, labels: []string{"for"},
		meaning: "calls that wait now, by what they wait for, in the words of `nfsrdmad calls`: `disk` (a thread executes the call), `thread`, `memory` (for payload), `user` (the groups or the name of the caller), `state` (the state of another client, or the disk of the state directory), `turn` (an earlier request of the same owner), `unknown`. Calls that end at once, on the thread that received them, are not counted",
		read: func(c *counted, put put) {
			for reason, w := range c.calls.Waits {
				put(float64(w.Now), rpc.Reason(reason).String())
			}
			put(float64(c.memory.Waiting), "memory")
		}},
	{name: "nfsrdmad_waits_total", help: "Waits of calls that have ended, by what the calls waited for.", kind: counter, labels: []string{"for"},
		meaning: "waits that have ended, by what the calls waited for. A call may wait several times",
		read: func(c *counted, put put) {
			for reason, w := range c.calls.Waits {
				put(float64(w.Ended), rpc.Reason(reason).String())
			}
			put(float64(c.memory.Waited)-float64(c.memory.Waiting), "memory")
		}},
	{name: "nfsrdmad_wait_seconds_total", help: "How long calls waited, by what they waited for.", kind: counter, labels: []string{"for"},
		meaning: "how long calls have waited, by what they waited for. A wait counts when it ends; one for memory counts as it goes on",
		read: func(c *counted, put put) {
			for reason, w := range c.calls.Waits {
				put(w.Took.Seconds(), rpc.Reason(reason).String())
			}
			put(c.memory.WaitedFor, "memory")
		}},
}

// statusLabel returns the label of a status of NFS with the given name.
func statusLabel(name string, ok bool) string {
	if ok {
		return "ok"
	}
	if _, short, found := strings.Cut(name, "ERR_"); found {
		name = short
	}
	return strings.ToLower(name)
}
