package server

import (
	"context"
	"net"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
	"github.com/nfsrdmad/nfsrdmad/server/statuspage"
)

// serveStatusPage starts to serve the status page on l. The function stop ends this.
func (s *Server) serveStatusPage(l net.Listener) (stop func(context.Context)) {
	s.measureDurations()
	anywhere := func() bool { return s.inForce().StatusPageOpen }
	return statuspage.Serve(l, &s.admin, anywhere, new(webDoor).changed).Close
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
	for _, p := range a.durations.Load().read(called) {
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
