package server

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveMetrics starts to serve metrics on l. The function stop ends this.
func (s *Server) serveMetrics(l net.Listener) (stop func(context.Context)) {
	s.measureDurations()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	door := new(webDoor)
	web := &http.Server{
		Handler: mux, ConnState: door.changed,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
	}
	go web.Serve(l)
	return func(ctx context.Context) {
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
	}
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
