package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// Report implements admin.Daemon. It writes nothing that is a secret: no key, no client ID and no file handle of a client.
func (a *administration) Report(w io.Writer) {
	section := func(name string) { fmt.Fprintf(w, "\n===== %s\n", name) }
	var u unix.Utsname
	_ = unix.Uname(&u)
	fmt.Fprintf(w, "nfsrdmad %s, %s, Linux %s\n", Version, runtime.Version(), unix.ByteSliceToString(u.Release[:]))
	section("status")
	asJSON(w, a.Status())
	section("configuration")
	asJSON(w, a.cfg)
	section("exports")
	for _, e := range a.Exports() {
		asJSON(w, e)
	}
	section("clients")
	for c := range a.Clients() {
		asJSON(w, c)
	}
	section("calls in progress")
	for _, c := range a.Calls() {
		asJSON(w, c)
	}
	section("locks for which clients wait")
	if all, err := a.Locks(admin.Choice{}); err == nil {
		for l := range all {
			if l.Waits {
				asJSON(w, l)
			}
		}
	}
	section("last lines of the log")
	for _, line := range a.last.all() {
		fmt.Fprintln(w, line)
	}
	section("metrics")
	a.writeMetrics(w)
	section("goroutines")
	_ = pprof.Lookup("goroutine").WriteTo(w, 1)
	section("what 'nfsrdmad doctor' finds; the daemon's own ports count as in use")
	for _, f := range Findings(a.cfg) {
		fmt.Fprintf(w, "%v %s: %s\n", f.OK, f.What, f.Detail)
	}
}

func asJSON(w io.Writer, v any) {
	if b, err := json.Marshal(v); err == nil {
		fmt.Fprintf(w, "%s\n", b)
	}
}

// writeMetrics writes all metrics as the endpoint for Prometheus does, whether there is one or not.
func (a *administration) writeMetrics(w io.Writer) {
	r, err := http.NewRequest("GET", "/metrics", nil)
	if err != nil {
		return
	}
	promhttp.HandlerFor(a.registry(), promhttp.HandlerOpts{}).ServeHTTP(&plainAnswer{Writer: w, header: make(http.Header)}, r)
}

// A plainAnswer is the answer to an HTTP request of which only the body counts.
type plainAnswer struct {
	io.Writer
	header http.Header
}

func (p *plainAnswer) Header() http.Header { return p.header }
func (*plainAnswer) WriteHeader(int)       {}
