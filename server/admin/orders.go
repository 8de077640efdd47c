package admin

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Taken is what a release or an eviction took.
type Taken struct {
	// Clients are the addresses of the clients that lost something, and Opens is the number of opens, each with its locks.
	Clients []string `json:"clients"`
	Opens   int      `json:"opens"`
	// Untold are the addresses of hosts of NFSv3 that lost something to a release. They cannot be told, and get nothing of
	// that kind back after a restart of the daemon until they restart themselves or have held nothing for an hour.
	Untold []string `json:"untold,omitempty"`
}

func (k *Taken) lines(out *table) {
	out.line("opens taken", k.Opens)
	out.line("from clients at", orNone(k.Clients))
	if len(k.Untold) > 0 {
		out.line("cannot be told", strings.Join(k.Untold, ", ")+" (NFSv3): after a restart of the daemon they get nothing of that kind back until they restart or have held nothing for an hour")
	}
}

// Reloaded is what a reload changed: names of exports, and keys of the configuration: Applied has those whose new values hold
// now, Kept those that have their former values, because the daemon cannot listen at the new address, and Waiting those
// whose changes wait for a restart.
type Reloaded struct {
	Added    []string `json:"added,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	Applied  []string `json:"applied_keys,omitempty"`
	Kept     []string `json:"kept_keys,omitempty"`
	Waiting  []string `json:"wait_for_restart,omitempty"`
	// Condition is Status.Condition: it names exports whose directories cannot be opened.
	Condition string `json:"condition"`
}

func (r *Reloaded) lines(out *table) {
	for _, l := range []struct {
		name string
		of   []string
	}{{"added", r.Added}, {"replaced", r.Replaced}, {"removed", r.Removed}, {"keys with new values", r.Applied}, {"keys with former values (the log says why)", r.Kept}, {"keys that wait for a restart", r.Waiting}} {
		if len(l.of) > 0 {
			out.line(l.name, strings.Join(l.of, ", "))
		}
	}
	if len(r.Added)+len(r.Replaced)+len(r.Removed) == 0 {
		out.line("exports", "unchanged")
	}
	out.line("condition", r.Condition)
}

// Grace tells whether there was a grace period, which has ended now.
type Grace struct {
	Was bool `json:"was"`
}

func (g *Grace) lines(out *table) {
	if g.Was {
		out.line("grace period", "ended")
	} else {
		out.line("grace period", "there was none")
	}
}

// Level is the level of the log that is in force.
type Level struct {
	Level string `json:"log_level"`
}

func (l *Level) lines(out *table) { out.line("log level", l.Level) }

// graceWithin is how long a request waits for the end of the grace period, which the disk has to store.
const graceWithin = 30 * time.Second

// orders registers the requests that change something. Each is a POST.
func orders(mux *http.ServeMux, d Daemon) {
	answer(mux, "POST /evict", func(q *query) (any, error) {
		of := Choice{Client: q.Get("client")}
		if of.Client == "" {
			return nil, Refuse("evict takes a client: an ID of 'nfsrdmad clients', or an address")
		}
		return d.Evict(of)
	}, "client")
	answer(mux, "POST /release", func(q *query) (any, error) {
		of := q.choice()
		if of == (Choice{}) {
			return nil, Refuse("release takes at least one of client, export and file")
		}
		return d.Release(of)
	}, choices...)
	exportOrders(mux, d)
	answer(mux, "POST /reload", func(q *query) (any, error) { return d.Reread(q.ctx) })
	answer(mux, "POST /grace/end", func(q *query) (any, error) {
		ctx, cancel := context.WithTimeout(q.ctx, graceWithin)
		defer cancel()
		return d.EndGrace(ctx)
	})
	answer(mux, "POST /log-level", func(q *query) (any, error) { return d.SetLevel(q.Get("level")) }, "level")
	answer(mux, "GET /log-level", func(*query) (any, error) { return &Level{d.Status().LogLevel}, nil })
}
