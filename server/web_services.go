package server

import (
	"context"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// webServices are the HTTP servers of a daemon: for the metrics, and the status page. A reload moves them to other
// addresses.
type webServices struct{ metrics, page webService }

// A webService serves at one address, or not at all.
type webService struct {
	mu      sync.Mutex
	at      string                // the configured address; "" if nothing is served
	stop    func(context.Context) // ends what is served; nil if nothing is
	serving bool                  // from the begin of Serve to its end
}

// partingTime is how long requests of HTTP may go on when their server ends.
const partingTime = time.Second

// move makes the service listen at another address, and begin to serve there with the function serve, which returns the
// function that ends this. Then it ends what was served at the former address. An empty address means none. If move
// cannot listen, it returns the reason, and what was served goes on.
func (w *webService) move(to string, serve func(net.Listener) func(context.Context)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.serving || to == w.at {
		return nil
	}
	var stop func(context.Context)
	if to != "" {
		l, err := net.Listen("tcp", to)
		if err != nil {
			return config.Cause(err)
		}
		stop = serve(l)
	}
	w.endLocked(context.Background())
	w.at, w.stop = to, stop
	return nil
}

func (w *webService) endLocked(ctx context.Context) {
	if w.stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partingTime)
	defer cancel()
	w.stop(ctx)
	w.at, w.stop = "", nil
}

// begin lets move listen.
func (w *webService) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving = true
}

// close ends the service for good.
func (w *webService) close(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving = false
	w.endLocked(ctx)
}

// serveWeb begins to serve the metrics and the status page, as far as they are configured. If it cannot listen, the server
// runs without, and the next reload tries again.
func (s *Server) serveWeb() {
	s.reloads.applying.Lock()
	defer s.reloads.applying.Unlock()
	s.web.metrics.begin()
	s.web.page.begin()
	cfg := *s.inForce()
	if err := s.applyMetrics(&cfg); err != nil {
		s.log.Warn(logline.MetricsUnserved, zap.String("metrics", cfg.Metrics), zap.Error(err))
		cfg.Metrics = ""
	}
	if err := s.applyStatusPage(&cfg); err != nil {
		s.log.Warn(logline.StatusPageUnserved, zap.String("status_page", cfg.StatusPage), zap.Error(err))
		cfg.StatusPage = ""
	}
	s.reread.Store(&cfg)
}

func (s *Server) applyMetrics(to *config.Config) error {
	return s.web.metrics.move(to.Metrics, s.serveMetrics)
}

func (s *Server) applyStatusPage(to *config.Config) error {
	if !s.daemon {
		return nil
	}
	return s.web.page.move(to.StatusPage, s.serveStatusPage)
}
