package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// metricsConnections is the largest number of connections to the metrics endpoint at a time, so that connections for
// metrics do not use up the descriptors for files and clients. A newcomer beyond it takes the place of another one: see
// metricsDoor.
const metricsConnections = 16

// serveMetrics starts to serve metrics if they are configured. The function stop ends this. If
// serveMetrics cannot listen, the server runs without metrics.
func (s *Server) serveMetrics() (stop func(context.Context)) {
	if s.cfg.Metrics == "" {
		return func(context.Context) {}
	}
	l, err := net.Listen("tcp", s.cfg.Metrics)
	if err != nil {
		s.log.Warn(logline.MetricsUnserved, zap.String("metrics", s.cfg.Metrics), zap.Error(config.Cause(err)))
		return func(context.Context) {}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	door := &metricsDoor{most: metricsConnections}
	web := &http.Server{
		Handler: mux, ConnState: door.changed,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
	}
	go web.Serve(l)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
	}
}

// A metricsDoor limits the connections of an HTTP server. One connection too many ends another one, of the peer address
// that has most: the one that has had no request for longest, or if all have one, that whose request is the oldest. So a
// scrape is answered whoever else holds connections.
type metricsDoor struct {
	most int
	mu   sync.Mutex
	open map[net.Conn]*visit
	n    uint64 // number of changes so far
}

// A visit is a connection at a metricsDoor. since is the number of its last change.
type visit struct {
	peer  netip.Addr
	asks  bool // it has a request that is not answered yet
	since uint64
}

// changed is the callback http.Server.ConnState.
func (d *metricsDoor) changed(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	switch state {
	case http.StateNew:
		if d.open == nil {
			d.open = make(map[net.Conn]*visit)
		}
		v := &visit{since: d.n}
		if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			v.peer = at.AddrPort().Addr().Unmap()
		}
		d.open[c] = v
		if len(d.open) > d.most {
			d.endOne(c)
		}
	case http.StateActive, http.StateIdle:
		if v := d.open[c]; v != nil {
			v.asks, v.since = state == http.StateActive, d.n
		}
	default:
		delete(d.open, c)
	}
}

// endOne ends a connection other than the newest.
func (d *metricsDoor) endOne(newest net.Conn) {
	of := make(map[netip.Addr]int)
	for _, v := range d.open {
		of[v.peer]++
	}
	var victim net.Conn
	for c, v := range d.open {
		if c == newest {
			continue
		}
		if victim == nil || v.before(d.open[victim], of) {
			victim = c
		}
	}
	delete(d.open, victim)
	victim.Close()
}

// before reports whether v is ended rather than w. of has the number of connections of each address.
func (v *visit) before(w *visit, of map[netip.Addr]int) bool {
	switch {
	case of[v.peer] != of[w.peer]:
		return of[v.peer] > of[w.peer]
	case v.asks != w.asks:
		return w.asks
	}
	return v.since < w.since
}

// registry returns a registry of all metrics of the server and, if the server is the process, of the process.
func (s *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s})
	if s.daemon {
		r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return r
}

// buildMetrics tells which program runs.
var buildMetrics = []metric{
	{name: "nfsrdmad_build_info", help: "The value is 1; the labels say which program runs.", kind: gauge, labels: []string{"version", "revision", "goversion"},
		meaning: "always 1: the labels say which version of the daemon runs, from which revision of the source (empty if it is not known), and with which version of Go it was built",
		read:    func(_ *counted, put put) { put(1, Version, revision(), runtime.Version()) }},
}

// revision returns the revision of the source, or "".
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
