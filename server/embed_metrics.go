package server

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// An embeddedCollector has the metrics of a server in a registry of the program that embeds it.
type embeddedCollector struct {
	collector
	in prometheus.Registerer

	mu    sync.RWMutex // held to read while the counters are read
	ended bool
}

// registerMetrics registers the server's metrics with in, or does nothing if in is nil.
func (s *Server) registerMetrics(in prometheus.Registerer) error {
	if in == nil {
		return nil
	}
	c := &embeddedCollector{collector: collector{s}, in: in}
	if err := in.Register(c); err != nil {
		return fmt.Errorf("cannot register the metrics of the server: %w; if another server has registered its own there, give each a Registerer of prometheus.WrapRegistererWith, with a label that tells them apart", err)
	}
	s.embedded = c
	return nil
}

// Collect implements prometheus.Collector. It collects nothing after remove.
func (c *embeddedCollector) Collect(ch chan<- prometheus.Metric) {
	if now := c.count(); now != nil {
		now.collect(ch)
	}
}

// count takes a snapshot of the counters; nil after remove.
func (c *embeddedCollector) count() *counted {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ended {
		return nil
	}
	return c.collector.count()
}

// remove unregisters the metrics. When it returns, the counters of the server are not read any more, although a registry
// may still collect from a collector that was just unregistered.
func (c *embeddedCollector) remove() {
	c.in.Unregister(c)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
}
