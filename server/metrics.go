package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

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
	descReplays    = prometheus.NewDesc("nfsrdmad_replays_total", "Retransmissions answered from the duplicate-request cache.", nil, nil)
	descMemory     = prometheus.NewDesc("nfsrdmad_payload_memory_bytes", "Payload memory.", []string{"kind"}, nil)
	descWaiting    = prometheus.NewDesc("nfsrdmad_payload_memory_waiting", "Calls that wait for payload memory.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

var programNames = map[uint32]string{100003: "nfs", 100005: "mount"}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st := c.s.rpc.Stats()
	for _, p := range st.Procedures {
		for status, n := range p.Calls {
			if n > 0 {
				ch <- prometheus.MustNewConstMetric(descCalls, prometheus.CounterValue, float64(n),
					programNames[p.Program], "3", p.Name, rpc.Status(status).String())
			}
		}
	}
	gauge(descInProgress, float64(st.InProgress))
	gauge(descQueued, float64(st.Queued))
	ch <- prometheus.MustNewConstMetric(descReplays, prometheus.CounterValue, float64(st.ReplyCache.Hits+st.ReplyCache.Joined))
	m := c.s.pool.Stats()
	gauge(descMemory, float64(m.Ceiling), "ceiling")
	gauge(descMemory, float64(m.InUse), "in_use")
	gauge(descMemory, float64(m.Peak), "peak")
	gauge(descWaiting, float64(m.Waiting))
}

// serveMetrics serves them where the configuration says so, and returns what
// ends that. Metrics are never a reason not to serve files.
func (s *Server) serveMetrics() (stop func()) {
	if s.cfg.Metrics == "" {
		return func() {}
	}
	l, err := net.Listen("tcp", s.cfg.Metrics)
	if err != nil {
		s.log.Warn("metrics are not served: choose another address for the key metrics", zap.String("metrics", s.cfg.Metrics), zap.Error(cause(err)))
		return func() {}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go web.Serve(l)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
	}
}
