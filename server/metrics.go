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

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A collector makes metrics from the packages' own counters when Prometheus asks for them. So an
// RPC call only increments counters, and makes no metrics.
type collector struct {
	s     *Server
	descs []*prometheus.Desc // one for each entry of metrics, in its order
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
