package admin

import (
	"context"
	"net/http"
	"time"
)

// An Export is an export as it is in force, or one of the configuration that is not served.
type Export struct {
	Name string `json:"name"`
	// Path is the directory on the server; "" if a program provides the file system.
	Path string `json:"path,omitempty"`
	// State is "served"; "not served"; "stopped", if the administrator has stopped it; or "kept", if the directory that the
	// export had before is served, because the present one at its path cannot be opened. Fault says why.
	State string `json:"state"`
	Fault string `json:"fault,omitempty"`
	// Options are all options in force, as the configuration has them. Everybody is true if clients= does not restrict
	// which clients it serves.
	Options   string `json:"options,omitempty"`
	Everybody bool   `json:"everybody"`
}

func (*Export) heads() []any { return []any{"NAME", "STATE", "CLIENTS", "PATH", "OPTIONS"} }

func (e *Export) row() []any {
	clients, options := "see options", e.Options
	switch {
	case e.Options == "":
		clients, options = "-", "-"
	case e.Everybody:
		clients = "everybody"
	}
	if e.Fault != "" {
		options += " (" + e.Fault + ")"
	}
	return []any{quoted(e.Name), e.State, clients, quoted(e.Path), options}
}

// ExportStopped is an export that is not served until it is started.
type ExportStopped struct {
	Name string `json:"name"`
	// Path is the directory on the server. InUseBy are the other exports and mounts that are served from the same mount, so
	// that it cannot be unmounted.
	Path    string   `json:"path"`
	InUseBy []string `json:"in_use_by,omitempty"`
}

func (s *ExportStopped) lines(out *table) {
	out.line("stopped", s.Name)
	out.line("path", s.Path, "- no file there is open here any more for this export")
	if len(s.InUseBy) > 0 {
		out.line("still in use", "the same mount is served by", orNone(s.InUseBy)+": stop them too before you unmount it")
	}
}

// ExportStarted is an export that is served again.
type ExportStarted struct {
	Name string `json:"name"`
}

func (s *ExportStarted) lines(out *table) { out.line("served", s.Name) }

// stopWithin is how long a request waits for the calls in an export that stops.
const stopWithin = 30 * time.Second

// exportOrders registers the requests that stop and start an export.
func exportOrders(mux *http.ServeMux, d Daemon) {
	answer(mux, "POST /exports/stop", func(q *query) (any, error) {
		ctx, cancel := context.WithTimeout(q.ctx, stopWithin)
		defer cancel()
		return d.StopExport(ctx, q.Get("name"))
	}, "name")
	answer(mux, "POST /exports/start", func(q *query) (any, error) { return d.StartExport(q.ctx, q.Get("name")) }, "name")
}
