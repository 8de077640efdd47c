package server

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A metric is an entry of the registry: a description, and a function that reads its values from
// a snapshot.
type metric struct {
	name string
	// help is the text for Prometheus. meaning is the text for docs/metrics.md.
	help, meaning string
	labels        []string
	kind          prometheus.ValueType
	// read calls put with each value and its labels. A histogram has took instead, and no kind.
	read func(*counted, put)
	took func(*counted, putDurations)
}

type put = func(v float64, labels ...string)

type putDurations = func(s *histogram.Snapshot, labels ...string)

// counted is a snapshot of the counters of all packages.
type counted struct {
	calls       rpc.Stats
	operations  []nfs4.OperationStats // of NFSv4
	procedures  []nfs3.OperationStats
	durations   []procedureDurations      // of calls; nil without metrics
	took        []nfs4.OperationDurations // by operations of NFSv4; nil without metrics
	accounts    []*export.Export
	clients     map[string]*clientUse // by address, with otherClients
	gss         gss.Stats
	groups      identity.GroupsStats // look-ups of users' groups
	memory      mem.Stats
	descriptors *local.Descriptors // nil if a program embeds the server and provides the file system
	failedSyncs uint64
	refused     uint64         // opens of files, for lack of descriptors
	exports     map[string]int // numbers of exports, by their states
	seats       census.Stats
	polls       busypoll.Stats
	transports  []carried
}

// carried is the traffic of one transport.
type carried struct {
	name string
	traffic
}

// count takes a snapshot. The counters of one package are read at the same moment, those
// of different packages at different moments.
func (s *Server) count() *counted {
	c := &counted{
		calls: s.rpc.Stats(), gss: s.gss.Stats(), groups: s.groups.Stats(), memory: s.pool.Stats(), seats: s.census.Stats(), polls: s.polls.Stats(),
	}
	if s.filesystems != nil {
		c.descriptors, c.failedSyncs, c.refused = s.filesystems.Descriptors, s.filesystems.FailedSyncs(), s.filesystems.OpensRefused()
	}
	c.exports = map[string]int{"served": len(s.exports.Table.All()), "not_served": 0, "stopped": 0, "kept": 0}
	if s.offer != nil {
		for _, f := range s.offer.Faults() {
			switch {
			case f.Served:
				c.exports["served"]--
				c.exports["kept"]++
			case f.Stopped:
				c.exports["stopped"]++
			default:
				c.exports["not_served"]++
			}
		}
	}
	if s.nfs4 != nil {
		c.operations, c.took = s.nfs4.Stats(), s.nfs4.Durations()
	}
	if s.nfs3 != nil {
		c.procedures = s.nfs3.Stats()
	}
	if d := s.durations.Load(); d != nil {
		c.durations = d.read(c.calls.Procedures)
	}
	c.accounts = s.exports.Table.All()
	c.clients = s.topClients.update(s.rpc.Uses)
	for _, t := range s.transports {
		c.transports = append(c.transports, carried{t.name, t.traffic()})
	}
	return c
}

// Kinds of metrics.
const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metrics are all metrics of the server itself, in the order of docs/metrics.md.
var metrics = slices.Concat(callMetrics, useMetrics, serverMetrics, versionMetrics, buildMetrics)

// serverMetrics are those about connections, memory and what the server does beside the calls.
var serverMetrics = []metric{
	{name: "nfsrdmad_busy_polls_total", help: "Times that the daemon looked for a connection's next call before it slept.", kind: counter, labels: []string{"result"},
		meaning: "polls for the next call (`busy_poll`), by result: a call came (`hit`), no call came (`miss`), or the daemon ended the poll because it had other work (`broken`)",
		read: each(func(c *counted) []count {
			return []count{{"hit", float64(c.polls.Hits)}, {"miss", float64(c.polls.Misses)}, {"broken", float64(c.polls.Broken)}}
		})},
	{name: "nfsrdmad_busy_poll_seconds_total", help: "Time spent on looking for a connection's next call.", kind: counter, labels: []string{"result"},
		meaning: "processor time of these polls: of those that ended with a call (`hit`), and of all others (`vain`)",
		read: each(func(c *counted) []count {
			return []count{{"hit", (c.polls.Spent - c.polls.Vain).Seconds()}, {"vain", c.polls.Vain.Seconds()}}
		})},
	{name: "nfsrdmad_panics_total", help: "Calls that a fault of the server ended.", kind: counter,
		meaning: "calls that ended because of a fault of the server, and were answered with SYSTEM_ERR. If this is not 0, please report the line in the log",
		read:    func(c *counted, put put) { put(float64(c.calls.Panics)) }},
	{name: "nfsrdmad_replays_total", help: "Retransmissions answered from the duplicate-request cache.", kind: counter,
		meaning: "repeated calls that the daemon answered from the reply cache",
		read: func(c *counted, put put) {
			put(float64(c.calls.ReplyCache.Hits + c.calls.ReplyCache.Joined))
		}},
	{name: "nfsrdmad_replies", help: "Replies remembered by the duplicate-request cache, calls under way included.", kind: gauge,
		meaning: "calls in the reply cache, including calls in progress",
		read:    func(c *counted, put put) { put(float64(c.calls.ReplyCache.Entries)) }},
	{name: "nfsrdmad_replies_bytes", help: "Memory of the duplicate-request cache.", kind: gauge,
		meaning: "memory of the reply cache, whose limit is `memory.replies`",
		read:    func(c *counted, put put) { put(float64(c.calls.ReplyCache.Bytes)) }},
	{name: "nfsrdmad_replies_forgotten_total", help: "Replies that the duplicate-request cache forgot, by reason.", kind: counter, labels: []string{"reason"},
		meaning: "replies removed from the reply cache, by reason: older than a quarter of an hour (`expired`); more than the number of calls that their connection may have in progress (`surplus`); removed too early, because memory was short (`young`: raise `memory.replies`); or larger than a quarter of `memory.replies` (`oversize`)",
		read: each(func(c *counted) []count {
			return []count{{"expired", float64(c.calls.ReplyCache.Expired)}, {"surplus", float64(c.calls.ReplyCache.Surplus)},
				{"young", float64(c.calls.ReplyCache.Young)}, {"oversize", float64(c.calls.ReplyCache.Oversize)}}
		})},
	{name: "nfsrdmad_calls_lagging_total", help: "Calls not executed because a newer connection of their client makes them.", kind: counter,
		meaning: "calls that the daemon did not execute because a newer connection of the same client makes the same calls. The daemon ended their connections",
		read:    func(c *counted, put put) { put(float64(c.calls.ReplyCache.Lagging)) }},
	{name: "nfsrdmad_gss_contexts", help: "RPCSEC_GSS contexts.", kind: gauge,
		meaning: "contexts of callers that use Kerberos: about one for each user of each client",
		read:    func(c *counted, put put) { put(float64(c.gss.Contexts)) }},
	{name: "nfsrdmad_gss_refused_total", help: "Contexts and calls under RPCSEC_GSS that were refused or dropped.", kind: counter, labels: []string{"reason"},
		meaning: "contexts and calls under Kerberos that were refused or dropped, by reason. `unknown_handle` is usual after a restart; for `credential`, `expired`, `unknown_principal` and `unidentified` there is a line in the log",
		read: func(c *counted, put put) {
			for reason, n := range c.gss.Refused {
				put(float64(n), gss.Reason(reason).String())
			}
		}},
	{name: "nfsrdmad_groups_users", help: "Users whose groups are looked up here.", kind: gauge, labels: []string{"kind"},
		meaning: "users of exports with `manage_gids`: all that the daemon remembers (`known`), and those of them whose groups it is looking up (`asked`)",
		read: each(func(c *counted) []count {
			return []count{{"known", float64(c.groups.Known)}, {"asked", float64(c.groups.Queued)}}
		})},
	{name: "nfsrdmad_groups_lookups_total", help: "Look-ups of users' groups.", kind: counter, labels: []string{"result"},
		meaning: "look-ups of these users' groups: `answered`, or `failed`, for which there is a line in the log",
		read: each(func(c *counted) []count {
			return []count{{"answered", float64(c.groups.Looked - c.groups.Failed)}, {"failed", float64(c.groups.Failed)}}
		})},
	{name: "nfsrdmad_groups_delayed_total", help: "Calls told to come again because groups of their user were not known.", kind: counter,
		meaning: "calls that the daemon answered with \"try again\" (JUKEBOX, DELAY), because the look-up of the user's groups took more than 5 seconds or had failed, or because their client asked for too many users",
		read:    func(c *counted, put put) { put(float64(c.groups.Delayed)) }},
	{name: "nfsrdmad_payload_memory_bytes", help: "Payload memory.", kind: gauge, labels: []string{"kind"},
		meaning: "payload memory: its limit `memory.ceiling` (`ceiling`), the part that is in use (`in_use`), and the largest part that was ever in use (`peak`)",
		read: each(func(c *counted) []count {
			return []count{{"ceiling", float64(c.memory.Ceiling)}, {"in_use", float64(c.memory.InUse)}, {"peak", float64(c.memory.Peak)}}
		})},
	{name: "nfsrdmad_payload_memory_waiting", help: "Calls that wait for payload memory.", kind: gauge,
		meaning: "calls that wait for payload memory: raise `memory.ceiling` if this stays above 0",
		read:    func(c *counted, put put) { put(float64(c.memory.Waiting)) }},
	{name: "nfsrdmad_exports", help: "Exports of the configuration.", kind: gauge, labels: []string{"state"},
		meaning: "exports of the configuration: those that are served (`served`); those whose directory cannot be opened, and that are not served (`not_served`); those that the administrator has stopped (`stopped`); and those that are served from the former directory, because the present one at their path cannot be opened (`kept`). For each of the last three there is a line in the log",
		read: each(func(c *counted) (all []count) {
			for state, n := range c.exports {
				all = append(all, count{state, float64(n)})
			}
			return all
		})},
	{name: "nfsrdmad_file_descriptors", help: "Descriptors for files in use by all exports together.", kind: gauge, labels: []string{"kind"},
		meaning: "descriptors for files of all exports together: the largest number (`limit`; see `connections` in [configuration.md](configuration.md#limits)), and the number that is open (`held`)",
		read: each(func(c *counted) []count {
			if c.descriptors == nil {
				return nil
			}
			return []count{{"limit", float64(c.descriptors.Limit())}, {"held", float64(c.descriptors.Held())}}
		})},
	{name: "nfsrdmad_opens_refused_total", help: "Times that a client could not open a file because too many were open.", kind: counter,
		meaning: "times that a client of NFSv4 could not open a file, because too many files are open. If this grows, see the log line `a client may not open more files`",
		read:    func(c *counted, put put) { put(float64(c.refused)) }},
	{name: "nfsrdmad_failed_syncs_total", help: "Times that a disk did not store what was written.", kind: counter,
		meaning: "times that a disk did not store written data. If this is not 0, see the log line `the disk did not store what was written`",
		read:    func(c *counted, put put) { put(float64(c.failedSyncs)) }},
	{name: "nfsrdmad_connections", help: "Connections that are open.", kind: gauge, labels: []string{"transport"},
		meaning: "connections that are open now",
		read:    ofTransports(func(t *traffic) float64 { return float64(t.open) })},
	{name: "nfsrdmad_connections_total", help: "Connections that were accepted.", kind: counter, labels: []string{"transport"},
		meaning: "connections that were accepted",
		read:    ofTransports(func(t *traffic) float64 { return float64(t.accepted) })},
	{name: "nfsrdmad_seats", help: "Connections, by how far they have come.", kind: gauge, labels: []string{"stage"},
		meaning: "connections by stage: `arriving` (set-up in progress), `silent` (no complete message has come), `stranger` (no call has come that an export serves), `known` (such a call has come)",
		read: func(c *counted, put put) {
			for stage, n := range c.seats.Seats {
				put(float64(n), census.Stage(stage).String())
			}
		}},
	{name: "nfsrdmad_connections_refused_total", help: "Connections that were refused.", kind: counter, labels: []string{"reason"},
		meaning: "connections refused: `address_full`, `full` (see `connections` in [configuration.md](configuration.md#limits)), `crowded` (too many connections are just being ended)",
		read:    ofReasons(true)},
	{name: "nfsrdmad_connections_ended_total", help: "Connections that were ended so that others have place, or because they did not get on.", kind: counter, labels: []string{"reason"},
		meaning: "connections ended: `evicted` (to make room for a new connection), `slow_setup` and `nothing_heard` (see `setup_timeout`), `nothing_served` (see `first_call_timeout`)",
		read:    ofReasons(false)},
	{name: "nfsrdmad_stalled_total", help: "Connections ended because the peer did not go on.", kind: counter, labels: []string{"transport"},
		meaning: "connections ended because the peer stopped in the middle of a message, or did not read its replies (see `stall_timeout`)",
		read:    ofTransports(func(t *traffic) float64 { return float64(t.stalled) })},
	{name: "nfsrdmad_bytes_total", help: "Bytes moved, by the way they took.", kind: counter, labels: []string{"transport", "way"},
		meaning: "bytes transferred: for RDMA `inline_received`, `inline_sent`, `read_chunk` (WRITE data), `write_chunk` (READ data), `reply_chunk`; for TCP `received` and `sent`",
		read:    ofKinds(func(t *traffic) []count { return t.bytes })},
	{name: "nfsrdmad_transport_errors_total", help: "What peers sent and could not be served.", kind: counter, labels: []string{"transport", "kind"},
		meaning: "messages of peers that could not be served",
		read:    ofKinds(func(t *traffic) []count { return t.malformed })},
	{name: "nfsrdmad_device_connections", help: "Connections over an RDMA device.", kind: gauge, labels: []string{"device", "protocol"},
		meaning: "connections that exist over an RDMA device; `protocol` is `InfiniBand`, `RoCE` or `iWARP`. A device that no connection has used yet, or that was removed, is not listed",
		read:    ofDevices(func(d *rdmacm.DeviceStats) float64 { return float64(d.Connections) })},
	{name: "nfsrdmad_device_connections_limit", help: "Connections that an RDMA device can have.", kind: gauge, labels: []string{"device", "protocol"},
		meaning: "the largest number of connections that the device can have, according to its limit of queue pairs",
		read:    ofDevices(func(d *rdmacm.DeviceStats) float64 { return float64(d.MaxConnections) })},
	{name: "nfsrdmad_device_registered_bytes", help: "Payload memory that an RDMA device can reach.", kind: gauge, labels: []string{"device", "protocol"},
		meaning: "payload memory that is registered with the device, and therefore stays resident",
		read:    ofDevices(func(d *rdmacm.DeviceStats) float64 { return float64(d.Registered) })},
	{name: "nfsrdmad_device_port_up", help: "Whether the ports in use of an RDMA device carry traffic.", kind: gauge, labels: []string{"device", "protocol"},
		meaning: "1 while each port of the device that is in use is up, else 0",
		read: ofDevices(func(d *rdmacm.DeviceStats) float64 {
			if d.Active {
				return 1
			}
			return 0
		})},
	{name: "nfsrdmad_device_events_total", help: "Asynchronous events of an RDMA device.", kind: counter, labels: []string{"device", "event"},
		meaning: "asynchronous events of the device, by their names in `ibv_get_async_event(3)`: `PORT_ERR` and `PORT_ACTIVE` (the port went down, came up), `QP_FATAL` or `CQ_ERR` (a connection ended), `DEVICE_FATAL` (the device is treated as removed), and others",
		read: func(c *counted, put put) {
			for _, t := range c.transports {
				for _, d := range t.devices {
					for _, e := range d.Events {
						put(float64(e.N), d.Name, e.What)
					}
				}
			}
		}},
	{name: "nfsrdmad_device_memory_bytes", help: "Memory for the messages of connections over RDMA devices.", kind: gauge, labels: []string{"kind"},
		meaning: "memory for the messages of connections over RDMA devices: `limit` (`rnic.device_memory`) and `in_use`. The metric is missing if there are no devices",
		read: func(c *counted, put put) {
			for _, t := range c.transports {
				if t.memoryLimit > 0 {
					put(float64(t.memoryLimit), "limit")
					put(float64(t.memory), "in_use")
				}
			}
		}},
	{name: "nfsrdmad_transport_faults_total", help: "Messages and calls that were not served, and connections ended for a fault.", kind: counter, labels: []string{"transport", "reason"},
		meaning: "RPC-over-RDMA: messages and calls that were not served, and connections ended for a fault, by `reason`. With `log_level = \"debug\"` each has a line, `message not served`, whose `because` says what happened and which section of a standard has the rule",
		read:    ofKinds(func(t *traffic) []count { return t.faults })},
}

// ofDevices returns a read function with one value for each RDMA device that is in use.
func ofDevices(value func(*rdmacm.DeviceStats) float64) func(*counted, put) {
	return func(c *counted, put put) {
		for _, t := range c.transports {
			for _, d := range t.devices {
				put(value(&d), d.Name, d.Protocol)
			}
		}
	}
}

// ofTransports returns a read function with one value for each transport.
func ofTransports(value func(*traffic) float64) func(*counted, put) {
	return func(c *counted, put put) {
		for _, t := range c.transports {
			put(value(&t.traffic), t.name)
		}
	}
}

// each returns a read function for a metric that has several values, each with one label.
func each(values func(*counted) []count) func(*counted, put) {
	return func(c *counted, put put) {
		for _, v := range values(c) {
			put(v.n, v.label)
		}
	}
}

// ofKinds returns a read function for a metric that has several values for each transport. Each
// value has a label, its kind.
func ofKinds(values func(*traffic) []count) func(*counted, put) {
	return func(c *counted, put put) {
		for _, t := range c.transports {
			for _, kind := range values(&t.traffic) {
				put(kind.n, t.name, kind.label)
			}
		}
	}
}

// ofReasons returns a read function for the number of connections per reason: of refused
// connections if refusals is true, otherwise of ended connections.
func ofReasons(refusals bool) func(*counted, put) {
	return func(c *counted, put put) {
		for _, why := range census.Reasons() {
			if why.Refusal() == refusals {
				put(float64(c.seats.Count[why]), why.String())
			}
		}
	}
}

// A collector makes metrics from the packages' own counters when Prometheus asks for them. So an
// RPC call only increments counters, and makes no metrics.
type collector struct{ *Server }

func (m *metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.name, m.help, m.labels, nil) }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range metrics {
		ch <- metrics[i].desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c.count().collect(ch) }

// collect sends the values of all metrics.
func (c *counted) collect(ch chan<- prometheus.Metric) {
	for i := range metrics {
		metrics[i].collect(c, ch)
	}
}

// collect sends the values that the metric has in the snapshot now.
func (m *metric) collect(now *counted, ch chan<- prometheus.Metric) {
	desc := m.desc()
	if m.took != nil {
		m.took(now, func(s *histogram.Snapshot, labels ...string) {
			ch <- prometheus.MustNewConstHistogram(desc, s.Count(), s.Sum().Seconds(), s.Buckets(), labels...)
		})
		return
	}
	m.read(now, func(v float64, labels ...string) {
		for i, l := range labels {
			if !utf8.ValidString(l) { // such as a path; Prometheus refuses it
				labels[i] = strconv.Quote(l)
			}
		}
		ch <- prometheus.MustNewConstMetric(desc, m.kind, v, labels...)
	})
}
