package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fake is a Daemon with many clients.
type fake struct {
	clients int
	// If stall is not nil, a list sends to it before its last client, and then receives from goesOn.
	stall, goesOn chan struct{}
	// follows is true if a trace goes on until its context ends.
	follows bool
}

func (f *fake) Status() *Status { return &Status{State: "serving", Version: "1"} }

func (f *fake) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for i := range f.clients {
			if f.stall != nil && i == f.clients-1 {
				f.stall <- struct{}{}
				<-f.goesOn
			}
			if !yield(&Client{ID: fmt.Sprintf("%012x", i), Name: "client\x1b[2J", Address: "192.0.2.1"}) {
				return
			}
		}
	}
}

func (f *fake) Opens(c Choice) (iter.Seq[*Open], error) {
	if c.Client == "unknown" {
		return nil, Refuse("there is no client %q", c.Client)
	}
	return func(func(*Open) bool) {}, nil
}

func (f *fake) Locks(Choice) (iter.Seq[*Lock], error) { return func(func(*Lock) bool) {}, nil }

func (f *fake) Calls() []*Call                 { return nil }
func (f *fake) Exports() []*Export             { return nil }
func (f *fake) Report(w io.Writer)             { io.WriteString(w, "report") }
func (f *fake) Backup(w io.Writer) error       { _, err := io.WriteString(w, "backup"); return err }
func (f *fake) Evict(Choice) (*Taken, error)   { return &Taken{}, nil }
func (f *fake) Release(Choice) (*Taken, error) { return &Taken{}, nil }
func (f *fake) Top(context.Context) *Top       { return &Top{Status: f.Status()} }
func (f *fake) Trace(ctx context.Context, c Choice) (iter.Seq[*Traced], error) {
	if c.Client == "unknown" {
		return nil, Refuse("there is no client %q", c.Client)
	}
	return func(yield func(*Traced) bool) {
		for i := 0; i < f.clients && yield(&Traced{Operation: "OPEN\x1b[2J", Dropped: uint64(i)}); i++ {
		}
		if f.follows {
			<-ctx.Done()
		}
	}, nil
}
func (f *fake) StopExport(context.Context, string) (*ExportStopped, error) {
	return &ExportStopped{}, nil
}
func (f *fake) StartExport(context.Context, string) (*ExportStarted, error) {
	return nil, Refuse("there is no such export")
}
func (f *fake) Reread(context.Context) (*Reloaded, error) { return nil, Refuse("the file is wrong") }
func (f *fake) EndGrace(context.Context) (*Grace, error)  { return &Grace{}, nil }
func (f *fake) SetLevel(level string) (*Level, error)     { return &Level{level}, nil }

// serve serves d on a socket until the end of the test.
func serve(t testing.TB, d Daemon) *Caller {
	t.Helper()
	_, c := serveAt(t, d)
	return c
}

func serveAt(t testing.TB, d Daemon) (*Server, *Caller) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, d)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Close(ctx)
	})
	return s, NewCaller(path)
}

func (c *Caller) text(t testing.TB, method, what string, with url.Values) (string, error) {
	t.Helper()
	body, err := c.Ask(t.Context(), method, what, with)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// Lists of any length arrive whole, as JSON and as a table, and an empty one is an empty array.
func TestListsArrive(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		c := serve(t, &fake{clients: n})
		text, err := c.text(t, "GET", "/clients", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, err := range elements[Client](strings.NewReader(text)) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		var table bytes.Buffer
		if err := PrintList[Client](&table)(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(table.String(), "\n"); got != n || lines != n+1 {
			t.Errorf("of %d clients arrive %d, and %d lines", n, got, lines)
		}
		if strings.Contains(table.String(), "\x1b") {
			t.Error("a client's name reaches the terminal as it is")
		}
	}
}

// A trace that goes on does not delay the end of the daemon.
func TestTraceEndsWithTheDaemon(t *testing.T) {
	s, c := serveAt(t, &fake{clients: 1, follows: true})
	body, err := c.Ask(t.Context(), "GET", "/trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Close(ctx)
	if ctx.Err() != nil {
		t.Error("it does")
	}
	if text, err := io.ReadAll(body); err != nil || strings.Count(string(text), "OPEN") != 1 {
		t.Errorf("its reader got %q, %v", text, err)
	}
}

// A list that ends in the middle is an error, never a shorter list.
func TestListThatEndsInTheMiddle(t *testing.T) {
	whole := `[{"id":"1"},{"id":"2"}]`
	for n := range len(whole) {
		var failed error
		for _, err := range elements[Client](strings.NewReader(whole[:n])) {
			failed = errors.Join(failed, err)
		}
		if failed == nil {
			t.Errorf("%q counts as whole", whole[:n])
		}
	}
}

// Requests that are unknown, have the wrong method, or unknown or repeated parameters are refused with what to do.
func TestWrongRequestsAreRefused(t *testing.T) {
	c := serve(t, &fake{})
	for _, r := range []struct {
		method, what string
		with         url.Values
		says         string
	}{
		{"GET", "/nothing", nil, "another version"},
		{"POST", "/status", nil, "Method Not Allowed"},
		{"GET", "/clients", url.Values{"x": {"1"}}, `"x" is not known`},
		{"GET", "/status", url.Values{"": {""}}, "not known here: there are none"},
		{"GET", "/opens", url.Values{"x": {""}}, "use client, export, file"},
		{"GET", "/opens", url.Values{"client": {"1", "2"}}, "more than once"},
		{"GET", "/release", url.Values{"client": {"1"}}, "Method Not Allowed"},
		{"POST", "/release", nil, "at least one"},
		{"POST", "/release", url.Values{"clients": {"1"}, "file": {"/x"}}, "not known"},
		{"POST", "/evict", nil, "takes a client"},
		{"POST", "/evict", url.Values{"client": {"1"}, "file": {"/x"}}, "not known"},
		{"POST", "/reload", nil, "the file is wrong"},
		{"GET", "/opens", url.Values{"client": {"unknown"}}, `no client "unknown"`},
	} {
		if _, err := c.text(t, r.method, r.what, r.with); err == nil || !strings.Contains(err.Error(), r.says) {
			t.Errorf("%s %s %v: %v", r.method, r.what, r.with, err)
		}
	}
}

// More requests than there is room for are refused, and orders go on while lists have stopped.
func TestNoMoreRequestsThanThereIsRoomFor(t *testing.T) {
	f := &fake{clients: 2, stall: make(chan struct{}), goesOn: make(chan struct{})}
	c := serve(t, f)
	var lists sync.WaitGroup
	for range mostRequests {
		lists.Go(func() {
			if _, err := c.text(t, "GET", "/clients", nil); err != nil {
				t.Error(err)
			}
		})
		<-f.stall // this one is in progress
	}
	if _, err := c.text(t, "GET", "/clients", nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("one more: %v", err)
	}
	for _, r := range [][2]string{{"GET", "/status"}, {"POST", "/release?client=1"}} {
		path, query, _ := strings.Cut(r[1], "?")
		with, _ := url.ParseQuery(query)
		if _, err := c.text(t, r[0], path, with); err != nil {
			t.Errorf("%v while the readers of lists have stopped: %v", r, err)
		}
	}
	close(f.goesOn)
	lists.Wait()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := c.text(t, "GET", "/opens", nil)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("afterwards: ", err)
		}
	}
}

// The socket has mode 0600 from its beginning; a path of any length works; a file that is no socket stays.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	for len(dir) < 2*longestPath {
		dir = filepath.Join(dir, "a directory with a long name")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	for range 2 { // the second time there is a socket already
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		s := Serve(l, &fake{})
		if _, err := NewCaller(path).text(t, "GET", "/status", nil); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Close(ctx)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("in place of a file: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Error("the file is gone")
	}
}

// A socket on which a program listens stays, and a daemon removes no socket but its own.
func TestSocketOfAnotherProgramStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for _, kind := range []string{"unix", "unixgram"} {
		var other io.Closer
		var err error
		at := &net.UnixAddr{Name: path, Net: kind}
		if kind == "unix" {
			other, err = net.ListenUnix(kind, at)
		} else {
			other, err = net.ListenUnixgram(kind, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another program listens") {
			t.Errorf("%s: %v, %v", kind, l, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		other.Close()
		os.Remove(path)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+" of the first"); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error("the first listener has removed the socket of the second: ", err)
	}
}

// A daemon that ends before or within its answer gives an error that says so, and a stranger's text does nothing to a
// terminal.
func TestAnswersThatEndOrAreStrange(t *testing.T) {
	for answer, says := range map[string]string{
		"": "ended in the middle of its answer",
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[":            "ended in the middle of its answer",
		"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\nbad\x1b[2J\r\n": "bad?[2J",
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, answer)
			c.Close()
		}()
		if _, err := NewCaller(path).text(t, "GET", "/status", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", answer, err)
		}
		l.Close()
	}
	var table bytes.Buffer
	if err := PrintList[Open](&table)(strings.NewReader("[{\"kind\":\"\u009b2J\",\"path\":\"\\\"/a\u009b\\\"\"}]")); err != nil || strings.ContainsRune(table.String(), 0x9b) {
		t.Errorf("%q, %v", table.String(), err)
	}
}

// The answer to a release names hosts that lost locks and do not know it.
func TestReleaseNamesThoseThatCannotBeTold(t *testing.T) {
	for answer, says := range map[string]bool{`{"clients":["192.0.2.1"],"opens":1}`: false, `{"clients":["192.0.2.1"],"opens":1,"untold":["192.0.2.1"]}`: true} {
		var out bytes.Buffer
		if err := PrintOne[Taken](&out)(strings.NewReader(answer)); err != nil || strings.Contains(out.String(), "cannot be told") != says {
			t.Errorf("%s is shown as %q, %v", answer, out.String(), err)
		}
	}
}

// No request makes the handler panic, and every refusal is one line for a terminal.
func FuzzRequests(f *testing.F) {
	for _, r := range []string{"/status", "/clients?x=1", "/clients?client=%zz", "/clients?client=a&client=b", "/debug/pprof/../x", "/%2e%2e/status", "/opens?export=/x%00"} {
		f.Add("GET", r)
		f.Add("POST", r)
	}
	h := handler(&fake{clients: 3})
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.Parse(target)
		if err != nil || strings.HasPrefix(u.Path, "/debug/") {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: "nfsrdmad", Header: http.Header{}, Body: http.NoBody}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code == http.StatusBadRequest {
			if text := strings.TrimSpace(w.Body.String()); text == "" || strings.ContainsAny(text, "\n\x00\x1b") {
				t.Errorf("%q %q is refused with %q", method, target, text)
			}
		}
	})
}
