package server

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// collector turns the rooms' own counters into metrics when somebody asks, so
// that nothing is paid for metrics on the way of a call.
type collector struct{ s *Server }

var (
	descCalls = prometheus.NewDesc("nfsrdmad_calls_total", "RPC calls that ended.",
		[]string{"program", "version", "procedure", "status"}, nil)
	descInProgress = prometheus.NewDesc("nfsrdmad_calls_in_progress", "RPC calls being served.", nil, nil)
	descQueued     = prometheus.NewDesc("nfsrdmad_calls_queued", "Calls that wait for a thread that may block.", nil, nil)
	descPanics     = prometheus.NewDesc("nfsrdmad_panics_total", "Calls that a fault of the server ended.", nil, nil)
	descReplays    = prometheus.NewDesc("nfsrdmad_replays_total", "Retransmissions answered from the duplicate-request cache.", nil, nil)
	descMemory     = prometheus.NewDesc("nfsrdmad_payload_memory_bytes", "Payload memory.", []string{"kind"}, nil)
	descWaiting    = prometheus.NewDesc("nfsrdmad_payload_memory_waiting", "Calls that wait for payload memory.", nil, nil)
	descFiles      = prometheus.NewDesc("nfsrdmad_file_descriptors", "Descriptors for files in use by all exports together.", []string{"kind"}, nil)
	descConns      = prometheus.NewDesc("nfsrdmad_connections", "Connections that are open.", []string{"transport"}, nil)
	descAccepted   = prometheus.NewDesc("nfsrdmad_connections_total", "Connections that were accepted.", []string{"transport"}, nil)
	descSeats      = prometheus.NewDesc("nfsrdmad_seats", "Connections, by how far they have come.", []string{"stage"}, nil)
	descRefused    = prometheus.NewDesc("nfsrdmad_connections_refused_total", "Connections that were refused.", []string{"reason"}, nil)
	descEnded      = prometheus.NewDesc("nfsrdmad_connections_ended_total", "Connections that were ended so that others have place, or because they did not get on.", []string{"reason"}, nil)
	descStalled    = prometheus.NewDesc("nfsrdmad_stalled_total", "Connections ended because the peer did not go on.", []string{"transport"}, nil)
	descBytes      = prometheus.NewDesc("nfsrdmad_bytes_total", "Bytes moved, by the way they took.", []string{"transport", "way"}, nil)
	descErrors     = prometheus.NewDesc("nfsrdmad_transport_errors_total", "What peers sent and could not be served.", []string{"transport", "kind"}, nil)
	descDuration   = prometheus.NewDesc("nfsrdmad_call_seconds", "How long calls took the server.", []string{"program", "procedure"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.s.rpc.Stats()
	for _, p := range st.Procedures {
		for status, n := range p.Calls {
			if n > 0 {
				counter(ch, descCalls, n, programName(p.Program), strconv.Itoa(int(p.Version)), p.Name, rpc.Status(status).String())
			}
		}
	}
	gauge(ch, descInProgress, float64(st.InProgress))
	gauge(ch, descQueued, float64(st.Queued))
	counter(ch, descPanics, st.Panics)
	counter(ch, descReplays, st.ReplyCache.Hits+st.ReplyCache.Joined)
	m := c.s.pool.Stats()
	gauge(ch, descMemory, float64(m.Ceiling), "ceiling")
	gauge(ch, descMemory, float64(m.InUse), "in_use")
	gauge(ch, descMemory, float64(m.Peak), "peak")
	gauge(ch, descWaiting, float64(m.Waiting))
	if t := c.s.trees; t != nil {
		gauge(ch, descFiles, float64(t.descriptors.Limit()), "limit")
		gauge(ch, descFiles, float64(t.descriptors.Held()), "held")
	}
	c.collectSeats(ch)
	c.collectTransports(ch)
	c.s.durations.collect(ch)
}

func (c collector) collectSeats(ch chan<- prometheus.Metric) {
	st := c.s.census.Stats()
	for stage, n := range st.Seats {
		gauge(ch, descSeats, float64(n), census.Stage(stage).String())
	}
	for _, why := range census.Reasons() {
		desc := descEnded
		if why.Refusal() {
			desc = descRefused
		}
		counter(ch, desc, st.Count[why], why.String())
	}
}

func (c collector) collectTransports(ch chan<- prometheus.Metric) {
	for _, t := range c.s.transports {
		n := t.traffic()
		gauge(ch, descConns, float64(n.open), t.name)
		counter(ch, descAccepted, n.accepted, t.name)
		counter(ch, descStalled, n.stalled, t.name)
		for _, way := range n.bytes {
			counter(ch, descBytes, way.n, t.name, way.label)
		}
		for _, kind := range n.malformed {
			counter(ch, descErrors, kind.n, t.name, kind.label)
		}
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// serveMetrics serves them where the configuration says so, and returns what
// ends that. Metrics are never a reason not to serve files.
func (s *Server) serveMetrics() (stop func(context.Context)) {
	if s.cfg.Metrics == "" {
		return func(context.Context) {}
	}
	l, err := net.Listen("tcp", s.cfg.Metrics)
	if err != nil {
		s.log.Warn("metrics are not served: choose another address for the key metrics", zap.String("metrics", s.cfg.Metrics), zap.Error(cause(err)))
		return func(context.Context) {}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go web.Serve(l)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
	}
}
