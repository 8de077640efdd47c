package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Traced is a call that has ended, as a trace shows it.
type Traced struct {
	// Time is when the call ended, and Seconds how long it took the server since the whole call was there: 0 if it was
	// refused before.
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	// Client is the address and port of the caller, and Transport "tcp" or "rdma".
	Client    string `json:"client"`
	Transport string `json:"transport"`
	XID       uint32 `json:"xid"`
	Program   string `json:"program"`
	Version   uint32 `json:"version"`
	// Operation is the procedure, or "proc-" and its number if the server does not know it or refused the caller. Of NFSv4,
	// Operations lists the operations that were executed, and Operation is the first of them that does more than to choose
	// an object.
	Operation  string   `json:"operation"`
	Operations []string `json:"operations,omitempty"`
	// Status is that of the protocol, such as "NFS3_OK" or "NFS4ERR_NOENT"; if the call has none, that of RPC, such as
	// "success", "auth_error" or "replayed" (answered from the reply cache).
	Status string `json:"status"`
	// File is the object of the call; of NFSv4 that of the last operation. Of a LOOKUP that failed, a CREATE or a REMOVE it
	// is the directory.
	*File `json:",omitempty"`
	// Dropped is the number of calls before this one that the trace left out, because its reader was too slow.
	Dropped uint64 `json:"left_out,omitempty"`
}

// line returns the call as a line of text. It is written at once, so its columns have fixed widths.
func (c *Traced) line() string {
	ops, path := c.Operation, "-"
	if len(c.Operations) > 0 {
		ops = strings.Join(c.Operations, " ")
	}
	if c.File != nil {
		path = c.File.cell()
	}
	text := fmt.Sprintf("%s  %9.3fms  %-21s %-4s %s%d %s  %s  %s", c.Time.Local().Format("15:04:05.000"), c.Seconds*1e3, c.Client, c.Transport, c.Program, c.Version, ops, c.Status, path)
	if c.Dropped > 0 {
		return fmt.Sprintf("(%d calls left out: they come faster than they are printed)\n", c.Dropped) + harmless(text)
	}
	return harmless(text)
}

// PrintTrace returns a function that writes each call of a trace as a line.
func PrintTrace(out io.Writer) func(body io.Reader) error {
	return func(body io.Reader) error {
		in := json.NewDecoder(body)
		for {
			var c Traced
			switch err := in.Decode(&c); {
			case err == io.EOF:
				return nil
			case err != nil:
				return fmt.Errorf("the trace ended: %w; see the daemon's log, and repeat the command", err)
			}
			if _, err := fmt.Fprintln(out, c.line()); err != nil {
				return err
			}
		}
	}
}

// stream registers a request whose answer is one object after another, each sent as it comes, until the caller goes.
func stream[E any](mux *http.ServeMux, pattern string, do func(q *query) (iter.Seq[E], error), names ...string) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r, names)
		if err != nil {
			fail(w, err)
			return
		}
		all, err := do(q)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		flush := http.NewResponseController(w)
		_ = flush.Flush() // the head, so that the caller knows that the trace has begun
		out := json.NewEncoder(w)
		for e := range all {
			if out.Encode(e) != nil || flush.Flush() != nil {
				return
			}
		}
	})
}

// traces registers the requests that look at calls as they end.
func traces(mux *http.ServeMux, d Daemon) {
	stream(mux, "GET /trace", func(q *query) (iter.Seq[*Traced], error) { return d.Trace(q.ctx, q.choice()) }, "client", "export")
	answer(mux, "GET /top", func(q *query) (any, error) {
		within := time.Second
		if s := q.Get("seconds"); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > 60 {
				return nil, Refuse("seconds=%s: use a number from 1 to 60", s)
			}
			within = time.Duration(n) * time.Second
		}
		ctx, cancel := context.WithTimeout(q.ctx, within)
		defer cancel()
		return d.Top(ctx), nil
	}, "seconds")
}
