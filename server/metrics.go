package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

// collector turns the rooms' own counters into metrics when they are asked for, so
// that nothing is paid for metrics on the way of a call.
type collector struct {
	s     *Server
	descs []*prometheus.Desc // of metrics
}

func newCollector(s *Server) *collector {
	c := &collector{s: s}
	for i := range metrics {
		m := &metrics[i]
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	now := c.s.count()
	for i := range metrics {
		m := &metrics[i]
		m.read(now, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(c.descs[i], m.kind, v, labels...)
		})
	}
}

// metricsConnections is how many connections to the metrics there are at a time. Others
// wait unaccepted, so that they take none of the descriptors that files and clients need.
const metricsConnections = 16

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
	registry.MustRegister(newCollector(s), s.durations)
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
