package statuspage

import (
	"bytes"
	"context"
	_ "embed" // the page's template and style sheet
	"fmt"
	"html/template"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// A Source tells what the page shows. Its methods may be called from any goroutine.
type Source interface {
	Status() *admin.Status
	Clients() iter.Seq[*admin.Client]
	Calls() []*admin.Call
	Exports() []*admin.Export
	Totals() *Totals
}

const (
	// mostRows is the largest number of rows of each table, and mostRunes that of characters of each cell.
	mostRows, mostRunes = 100, 160
	// keep is how long the page is shown again once it is made, so that many readers cost the daemon no more than one.
	keep = time.Second
)

// policy allows a browser to load the style sheet, and nothing else.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed style.css
var style []byte

//go:embed page.html
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"cut": cut, "ago": ago, "size": size}).Parse(text))

// A Server serves the page on one listener.
type Server struct {
	web     *http.Server
	end     context.CancelFunc
	sampled chan struct{} // closed when the sampler has ended
}

// Serve begins to serve the page about from on l, and to take samples. The function anywhere, which any goroutine may
// call, reports whether requests may name the server by an address other than loopback. The function changed is told the
// states of connections.
func Serve(l net.Listener, from Source, anywhere func() bool, changed func(net.Conn, http.ConnState)) *Server {
	ctx, end := context.WithCancel(context.Background())
	h := &handler{from: from, anywhere: anywhere}
	s := &Server{end: end, sampled: make(chan struct{}), web: &http.Server{
		Handler: h, ConnState: changed, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
	}}
	go func() {
		defer close(s.sampled)
		h.history.run(ctx, from.Totals)
	}()
	go s.web.Serve(l)
	return s
}

// Close ends the server and the sampler. Requests in progress have until the end of ctx.
func (s *Server) Close(ctx context.Context) {
	s.end()
	if s.web.Shutdown(ctx) != nil {
		s.web.Close()
	}
	<-s.sampled
}

// A handler answers requests.
type handler struct {
	from     Source
	anywhere func() bool
	history  sampler

	mu   sync.Mutex
	made time.Time // when body was made
	body []byte
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	switch {
	case !h.isName(r.Host):
		http.Error(w, "this page has no host name: write the server's address instead, such as http://127.0.0.1:9428/", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		body, err := h.page()
		if err != nil {
			http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
			return
		}
		head.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(body) // the reader has gone
	case r.URL.Path == "/style.css":
		head.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
	default:
		http.Error(w, "there is only one page: /", http.StatusNotFound)
	}
}

// isName reports whether host, with or without a port, is a name of this server: localhost, or an address. Any address that
// leads here is the server's own, and nobody else can decide where it leads.
func (h *handler) isName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	at, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && (at.Unmap().IsLoopback() || h.anywhere())
}

// page returns the page. It makes the page anew if the last one has been there for the time keep; requests that come
// meanwhile wait for that one.
func (h *handler) page() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.made) < keep && h.body != nil {
		return h.body, nil
	}
	now := time.Now()
	var b bytes.Buffer
	if err := page.Execute(&b, h.content(now)); err != nil {
		return nil, err
	}
	h.body, h.made = b.Bytes(), time.Now()
	return h.body, nil
}

// content is what the template shows.
type content struct {
	*admin.Status
	Plots  []*plot
	Tables []*table
}

// A table is a list of the administrator's, up to mostRows. More is the number of its other entries, and Command shows it whole.
type table struct {
	Title, None, Command string
	Heads                []string
	Rows                 [][]string
	More                 int
}

func (h *handler) content(now time.Time) *content {
	calls := table{Title: "Calls that wait", None: "No call waits.", Command: "nfsrdmad calls"}
	calls.Heads, calls.Rows, calls.More = admin.Cells(slices.Values(h.from.Calls()), mostRows)
	clients := table{Title: "Clients", None: "No client is known.", Command: "nfsrdmad clients"}
	clients.Heads, clients.Rows, clients.More = admin.Cells(h.from.Clients(), mostRows)
	exports := table{Title: "Exports", None: "Nothing is exported.", Command: "nfsrdmad exports"}
	exports.Heads, exports.Rows, exports.More = admin.Cells(slices.Values(h.from.Exports()), mostRows)
	return &content{Status: h.from.Status(), Plots: plots(h.history.shown(now), now), Tables: []*table{&calls, &clients, &exports}}
}

// cut returns the first mostRunes characters of s, with a question mark for each that is not printed.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= mostRunes {
		return s
	}
	return string([]rune(s)[:mostRunes]) + "…"
}

// ago formats the time since t.
func ago(t time.Time) string {
	d := time.Since(t)
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	}
	return d.Round(time.Second).String()
}

func size(n int64) string { return scaled(float64(n), "B") }
