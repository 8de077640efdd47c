package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Daemon answers the administrator. Its methods may be called from any goroutine. A method whose request has ended
// (ctx) may return early.
type Daemon interface {
	Status() *Status
	Clients() iter.Seq[*Client]
	// Opens and Locks return an error if a name in the choice is not there.
	Opens(Choice) (iter.Seq[*Open], error)
	Locks(Choice) (iter.Seq[*Lock], error)
	// Calls returns the calls in progress.
	Calls() []*Call
	Exports() []*Export
	// Trace returns the calls of a choice of Client and Export that begin from now on, as they end, until ctx ends. It fails
	// if there is no client or export of that name. If the caller is too slow, it leaves calls out.
	Trace(context.Context, Choice) (iter.Seq[*Traced], error)
	// Top says what the daemon does until ctx ends.
	Top(ctx context.Context) *Top
	// Report writes all that helps to find out what is wrong, as text, without secrets.
	Report(io.Writer)
	// Backup writes a backup of the state directory, as a tar archive.
	Backup(io.Writer) error
	// Evict removes the clients of a choice that has no more than Client. Release takes what clients have open and locked.
	Evict(Choice) (*Taken, error)
	Release(Choice) (*Taken, error)
	// StopExport ends the serving of an export until StartExport, and returns when its file system is closed.
	StopExport(ctx context.Context, name string) (*ExportStopped, error)
	StartExport(ctx context.Context, name string) (*ExportStarted, error)
	// Reread reads the configuration again, and returns when it is in force, or what is wrong with it.
	Reread(context.Context) (*Reloaded, error)
	EndGrace(context.Context) (*Grace, error)
	// SetLevel sets the level of the log until the next start.
	SetLevel(string) (*Level, error)
}

// An Error is a request that failed. Status is the HTTP status.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Refuse returns an Error for a request that cannot be carried out as it was asked.
func Refuse(format string, args ...any) error {
	return &Error{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// mostRequests is the largest number of GET requests in progress, without those of /status, and also the largest number
// of all others. A further one is refused. A list stays in progress while its reader stops, as 'less' does, so lists take
// no place of an order.
const mostRequests = 16

// A Server answers on one socket.
type Server struct{ web *http.Server }

// Serve begins to answer on l, which Listen has returned.
func Serve(l net.Listener, d Daemon) *Server {
	ending, end := context.WithCancel(context.Background())
	s := &Server{&http.Server{
		Handler: until(ending, handler(d)), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, refusedKey{}, c.(*conn).refused)
		},
	}}
	s.web.RegisterOnShutdown(end)
	go s.web.Serve(l)
	return s
}

type refusedKey struct{}

// until returns a handler like h. When ending does, so do the contexts of requests that change nothing: a trace that an
// administrator has forgotten goes on for ever.
func until(ending context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ending, cancel)()
			r = r.WithContext(ctx)
		}
		h.ServeHTTP(w, r)
	})
}

// Close ends the socket. Traces end at once, and other requests in progress have until the end of ctx.
func (s *Server) Close(ctx context.Context) {
	if s.web.Shutdown(ctx) != nil {
		s.web.Close()
	}
}

// handler returns the handler of all requests.
func handler(d Daemon) http.Handler {
	mux := http.NewServeMux()
	answer(mux, "GET /status", func(*query) (any, error) { return d.Status(), nil })
	list(mux, "GET /clients", func(*query) (iter.Seq[*Client], error) { return d.Clients(), nil })
	list(mux, "GET /opens", func(q *query) (iter.Seq[*Open], error) { return d.Opens(q.choice()) }, choices...)
	list(mux, "GET /locks", func(q *query) (iter.Seq[*Lock], error) { return d.Locks(q.choice()) }, choices...)
	list(mux, "GET /calls", func(*query) (iter.Seq[*Call], error) { return slices.Values(d.Calls()), nil })
	list(mux, "GET /exports", func(*query) (iter.Seq[*Export], error) { return slices.Values(d.Exports()), nil })
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		d.Report(w)
	})
	mux.HandleFunc("GET /state/backup", func(w http.ResponseWriter, _ *http.Request) {
		var whole bytes.Buffer // an error in the middle would leave half an answer
		if err := d.Backup(&whole); err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-tar")
		_, _ = whole.WriteTo(w) // the caller has gone
	})
	traces(mux, d)
	orders(mux, d)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	lists, others := make(chan struct{}, mostRequests), make(chan struct{}, mostRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused, _ := r.Context().Value(refusedKey{}).(error); refused != nil {
			http.Error(w, refused.Error(), http.StatusForbidden)
			return
		}
		places := others
		if r.Method == http.MethodGet && r.URL.Path != "/status" {
			places = lists
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			// The request is here. Its answer may take longer than ReadTimeout, which would end its context.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			mux.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("the daemon is answering %d requests of administrators already: end some of the commands that run", mostRequests), http.StatusServiceUnavailable)
		}
	})
}

// answer registers a request whose answer is one object. names are those of its parameters.
func answer(mux *http.ServeMux, pattern string, do func(q *query) (any, error), names ...string) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r, names)
		if err != nil {
			fail(w, err)
			return
		}
		what, err := do(q)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what) // the caller has gone
	})
}

// list registers a request whose answer is an array. It is written as the list goes on. names are those of its parameters.
func list[E any](mux *http.ServeMux, pattern string, do func(q *query) (iter.Seq[E], error), names ...string) {
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
		w.Header().Set("Content-Type", "application/json")
		out, before := json.NewEncoder(w), "["
		for e := range all {
			if _, err := w.Write([]byte(before)); err != nil {
				return
			}
			if out.Encode(e) != nil {
				return
			}
			before = ","
		}
		if before == "[" {
			w.Write([]byte("["))
		}
		w.Write([]byte("]\n"))
	})
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if own, ok := errors.AsType[*Error](err); ok {
		status = own.Status
	}
	http.Error(w, err.Error(), status)
}

// A query has the parameters of a request, and the context that ends with it.
type query struct {
	url.Values
	ctx context.Context
}

// readQuery returns the parameters of a request. It refuses one that is not among names, and one that is given twice.
func readQuery(r *http.Request, names []string) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Refuse("the parameters of %s cannot be read: %v", r.URL.Path, err)
	}
	use := "there are none"
	if len(names) > 0 {
		use = "use " + strings.Join(names, ", ")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(names, name):
			return nil, Refuse("parameter %q is not known here: %s", name, use)
		case len(all) > 1:
			return nil, Refuse("parameter %s is given more than once", name)
		}
	}
	return &query{values, r.Context()}, nil
}
