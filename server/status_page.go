package server

import (
	"context"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/server/statuspage"
)

// serveStatusPage starts to serve the status page if it is configured. The function stop ends this. If serveStatusPage
// cannot listen, the server runs without the page.
func (s *Server) serveStatusPage() (stop func(context.Context)) {
	none := func(context.Context) {}
	if !s.daemon || s.cfg.StatusPage == "" {
		return none
	}
	l, err := net.Listen("tcp", s.cfg.StatusPage)
	if err != nil {
		s.log.Warn(logline.StatusPageUnserved, zap.String("status_page", s.cfg.StatusPage), zap.Error(config.Cause(err)))
		return none
	}
	door := new(webDoor)
	page := statuspage.Serve(l, &s.admin, s.cfg.StatusPageOpen, door.changed)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		page.Close(ctx)
	}
}

// Totals implements statuspage.Source.
func (a *administration) Totals() *statuspage.Totals {
	t := new(statuspage.Totals)
	called := a.rpc.Stats().Procedures
	for _, p := range called {
		for _, n := range p.Calls {
			t.Calls += n
		}
	}
	clients, others := a.rpc.Uses()
	t.Read, t.Written = others.Read, others.Written
	for _, use := range clients {
		t.Read, t.Written = t.Read+use.Read, t.Written+use.Written
	}
	add := func(operation string, took *histogram.Snapshot) {
		group := statuspage.Other
		switch operation {
		case "READ", "READ_PLUS":
			group = statuspage.Reading
		case "WRITE", "COMMIT":
			group = statuspage.Writing
		}
		t.Took[group].Merge(took)
	}
	for _, p := range a.durations.read(called) {
		if p.program == "nfs" && p.procedure != "COMPOUND" { // whose operations count
			add(p.procedure, &p.Snapshot)
		}
	}
	if a.nfs4 != nil {
		for _, o := range a.nfs4.Durations() {
			add(strings.TrimPrefix(o.Operation.String(), "OP_"), &o.Snapshot)
		}
	}
	return t
}
