package statuspage

import (
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// hostile is what a client may call itself, or a file.
const hostile = `</td><script>alert(1)</script>"'><img src=x onerror=alert(1)>{{.}}` + "\x1b[2J\u202e\x00\xff"

// A fake is a Source with many hostile clients.
type fake struct {
	clients int
	asked   int
	takes   time.Duration // to answer
}

func (f *fake) Status() *admin.Status {
	f.asked++
	time.Sleep(f.takes)
	return &admin.Status{Version: hostile, State: "draining", Condition: hostile, Started: time.Now(), Grace: true}
}

func (f *fake) Clients() iter.Seq[*admin.Client] {
	return func(yield func(*admin.Client) bool) {
		for range f.clients {
			if !yield(&admin.Client{ID: "0", Name: hostile, Address: "192.0.2.1", Mounts: []string{strings.Repeat("long", 1000), hostile}}) {
				return
			}
		}
	}
}

func (f *fake) Calls() []*admin.Call {
	return []*admin.Call{{Client: "192.0.2.1:700", Operation: "WRITE", Waits: "disk", File: &admin.File{Export: hostile, Path: "/" + hostile}}, {More: 7, Waits: "disk"}}
}

func (f *fake) Exports() []*admin.Export {
	return []*admin.Export{{Name: hostile, Path: hostile, Fault: hostile, Options: hostile, State: "kept"}}
}

func (f *fake) Totals() *Totals { return new(Totals) }

func ask(h http.Handler, method, host, path string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What clients call themselves and their files reaches the page as text: the page has the elements of its template alone, and
// no character that a terminal or a browser would obey.
func TestHostileNamesAreText(t *testing.T) {
	h := &handler{from: &fake{clients: 1}}
	got := body(t, ask(h, "GET", "127.0.0.1:9428", "/"))
	for _, never := range []string{"<script", "<img", "\x1b", "\u202e", "\x00", "\xff", "onerror=alert(1)>"} {
		if strings.Contains(got, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if n := strings.Count(got, "&lt;script&gt;"); n < 6 {
		t.Errorf("the page shows %d hostile names:\n%s", n, got)
	}
	if want := "<td>&#34;" + strings.Repeat("long", mostRunes)[:mostRunes-1] + "…</td>"; !strings.Contains(got, want) { // quoted
		t.Errorf("a long cell is not cut to %d characters", mostRunes)
	}
	for _, want := range []string{"draining", "grace period", "and 7 more", "192.0.2.1:700"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

// A table has a bounded number of rows, and says how many entries it leaves out and which command shows them.
func TestRowsAreBounded(t *testing.T) {
	got := body(t, ask(&handler{from: &fake{clients: mostRows + 5}}, "GET", "localhost", "/"))
	if n := strings.Count(got, "192.0.2.1</td>"); n != mostRows {
		t.Errorf("%d rows", n)
	}
	if !strings.Contains(got, "and 5 more: <code>nfsrdmad clients</code>") {
		t.Error("the page does not say how many clients it leaves out")
	}
}

// Only GET and HEAD are answered, only at addresses and localhost, so that a name that a page elsewhere controls leads to
// nothing. Every answer forbids the browser scripts and frames.
func TestWhatIsAnsweredToWhom(t *testing.T) {
	for _, c := range []struct {
		method, host, path string
		anywhere           bool
		status             int
	}{
		{"GET", "127.0.0.1:9428", "/", false, 200},
		{"HEAD", "127.0.0.1:9428", "/", false, 200},
		{"GET", "127.0.0.1", "/style.css", false, 200},
		{"GET", "LocalHost:1", "/", false, 200},
		{"GET", "[::1]:9428", "/", false, 200},
		{"GET", "[::1]", "/", false, 200},
		{"GET", "127.0.0.1:9428", "/other", false, 404},
		{"POST", "127.0.0.1:9428", "/", false, 405},
		{"TRACE", "127.0.0.1:9428", "/", false, 405},
		{"GET", "", "/", false, 421},
		{"GET", "evil.example:9428", "/", false, 421},
		{"GET", "127.0.0.1.evil.example", "/style.css", false, 421},
		{"GET", "localhost.evil.example", "/", false, 421},
		{"GET", "192.0.2.1:9428", "/", false, 421},
		{"GET", "192.0.2.1:9428", "/", true, 200},
		{"GET", "evil.example", "/", true, 421},
	} {
		r := ask(&handler{from: &fake{}, anywhere: func() bool { return c.anywhere }}, c.method, c.host, c.path)
		if r.StatusCode != c.status {
			t.Errorf("%s %s of %q: status %d, want %d", c.method, c.path, c.host, r.StatusCode, c.status)
		}
		p := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "frame-ancestors 'none'") || strings.Contains(p, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s of %q: the headers are %v", c.method, c.path, c.host, r.Header)
		}
	}
}

// Readers that come together cost the daemon one page, also if it takes the daemon longer to make than a page is kept.
func TestReadersShareAPage(t *testing.T) {
	f := &fake{takes: keep + keep/10}
	h := &handler{from: f}
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() { ask(h, "GET", "localhost", "/") })
	}
	readers.Wait()
	if f.asked > 2 { // the second is for a reader that begins late
		t.Errorf("20 requests at a time asked the daemon %d times", f.asked)
	}
}

// The sampler makes rates and durations of differences, and keeps ten minutes of them.
func TestSamplesAreDifferences(t *testing.T) {
	var s sampler
	var sum Totals
	at := time.Now()
	for i := range 3 * samples {
		sum.Calls, sum.Read, sum.Written = sum.Calls+50, sum.Read+5000, sum.Written+500
		s.add(at.Add(time.Duration(i)*period), &sum)
	}
	now := at.Add(time.Duration(3*samples-1) * period)
	all := s.shown(now)
	if len(all) != samples {
		t.Fatalf("%d points", len(all))
	}
	for _, p := range all {
		if p.calls != 10 || p.read != 1000 || p.written != 100 || p.median != [groups]time.Duration{} {
			t.Fatalf("%+v", p)
		}
	}
	if n := len(s.shown(now.Add(history / 2))); n != samples/2 {
		t.Errorf("%d points after a pause of five minutes", n)
	}
}

// Whatever the values are, lines stay in the area of the plot, and the images are well-formed.
func TestPlotsStayInTheirArea(t *testing.T) {
	now := time.Now()
	h := &handler{from: &fake{}}
	for _, v := range []float64{0, 1, 7, 999, 1e3, 1e15} {
		var points []point
		for i := range samples {
			p := point{at: now.Add(time.Duration(i-samples+1) * period), calls: v, read: v * float64(i%2), written: v / 3}
			p.median, p.p99 = [groups]time.Duration{time.Duration(v)}, [groups]time.Duration{time.Duration(10 * v)}
			points = append(points, p)
		}
		h.history.points = points
		for _, p := range plots(points, now) {
			if n := len(p.Rows); n < 2 || n > 18 {
				t.Errorf("%v: %s has %d marks", v, p.Title, n)
			}
			for _, l := range p.Lines {
				for step := range strings.FieldsFuncSeq(l.Path, func(r rune) bool { return r == 'M' || r == 'L' }) {
					var x, y float64
					if _, err := fmt.Sscan(step, &x, &y); err != nil || math.IsNaN(y) || x < float64(p.Left) || x > float64(p.Right) || y < float64(p.Top) || y > float64(p.Bottom) {
						t.Fatalf("%v: %s, %s: a step is %q, %v", v, p.Title, l.Name, step, err)
					}
				}
			}
		}
	}
	if _, svg, ok := strings.Cut(body(t, ask(h, "GET", "localhost", "/")), `<div class="plots">`); ok {
		svg, _, _ = strings.Cut(svg, "</div>")
		d := xml.NewDecoder(strings.NewReader("<div>" + svg + "</div>"))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	} else {
		t.Error("the page has no plots")
	}
}

// A number has at most three digits and the prefix that fits.
func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0 B/s", 1: "1 B/s", 12.34: "12.3 B/s", 999.6: "1 kB/s", 1500: "1.5 kB/s", 123456789: "123 MB/s", 5e9: "5 GB/s"} {
		if got := bytesPerSecond(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{1e-6: "1 µs", 0.00025: "250 µs", 0.0125: "12.5 ms", 1: "1 s", 10: "10 s"} {
		if got := seconds(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
