package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

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
func (c collector) Collect(ch chan<- prometheus.Metric) {
	now := c.count()
	for i := range metrics {
		m := &metrics[i]
		desc := m.desc()
		m.read(now, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, v, labels...)
		})
	}
}

// metricsConnections is the largest number of connections to the metrics endpoint at a time. At
// this number the server accepts no further connection there until one ends, so that connections
// for metrics do not use up the descriptors for files and clients.
const metricsConnections = 16

// serveMetrics starts to serve metrics if they are configured. The function stop ends this. If
// serveMetrics cannot listen, the server runs without metrics.
func (s *Server) serveMetrics() (stop func(context.Context)) {
	if s.cfg.Metrics == "" {
		return func(context.Context) {}
	}
	l, err := net.Listen("tcp", s.cfg.Metrics)
	if err != nil {
		s.log.Warn("metrics are not served: choose another address for the key metrics", zap.String("metrics", s.cfg.Metrics), zap.Error(config.Cause(err)))
		return func(context.Context) {}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s}, s.durations)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second}
	go web.Serve(netutil.LimitListener(l, metricsConnections))
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
	}
}

// durations are histograms of the durations of calls, one for each procedure that was called.
// They exist only if metrics are served.
type durations struct {
	*prometheus.HistogramVec
	of sync.Map // the histograms by procedure: they are found here in less time than in the HistogramVec
}

type procedure struct {
	program uint32
	name    string
}

// durationMetric describes the histograms, for documentation and for Prometheus.
var durationMetric = metric{
	name: "nfsrdmad_call_seconds", help: "How long calls took the server.", labels: []string{"program", "procedure"},
	meaning: "histogram of the time that the server took for calls, without the time on the network",
}

func newDurations() *durations {
	return &durations{HistogramVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: durationMetric.name, Help: durationMetric.help,
		// Powers of two, from 4.096 us to about 17 s.
		Buckets: prometheus.ExponentialBuckets(4096e-9, 2, 23),
	}, durationMetric.labels)}
}

// observe adds a call's duration to the histogram of its procedure. It is the callback
// rpc.Config.Observe.
func (d *durations) observe(e *rpc.Event) {
	if e.Nanoseconds == 0 || e.Name == "" {
		return
	}
	key := procedure{e.Program, e.Name}
	histogram, there := d.of.Load(key)
	if !there {
		histogram = d.WithLabelValues(programName(e.Program), e.Name)
		d.of.Store(key, histogram)
	}
	histogram.(prometheus.Observer).Observe(float64(e.Nanoseconds) / 1e9)
}
