package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// A Caller asks the daemon at one socket.
type Caller struct {
	path string
	web  *http.Client
}

// NewCaller returns a Caller for the socket at this path. It does not connect yet.
func NewCaller(path string) *Caller {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		short, done, err := shortened(path)
		if err != nil {
			return nil, err
		}
		defer done()
		return new(net.Dialer).DialContext(ctx, "unix", short)
	}
	return &Caller{path, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Ask makes one request, such as "GET", "/status", and returns the body of the answer, which the caller closes. Its errors
// say what to do: no daemon runs, the caller may not ask, or what the daemon says against the request.
func (c *Caller) Ask(ctx context.Context, method, what string, with url.Values) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: "nfsrdmad", Path: what, RawQuery: with.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	got, err := c.web.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, explain(c.path, err)
	}
	if got.StatusCode == http.StatusOK {
		return &answerBody{got.Body, c.path}, nil
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(got.Body, 64<<10))
	if got.StatusCode == http.StatusNotFound && strings.HasPrefix(string(text), "404 page") {
		return nil, fmt.Errorf("the daemon at %s does not know %s: it is of another version than this command", c.path, what)
	}
	return nil, &Error{got.StatusCode, harmless(strings.TrimSpace(string(text)))}
}

// An answerBody is the body of an answer, of which a Read explains its error.
type answerBody struct {
	io.ReadCloser
	path string
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = explain(b.path, err)
	}
	return n, err
}

// elements decodes an array, one element at a time. If the daemon ends in the middle, the last pair has the error.
func elements[E any](body io.Reader) iter.Seq2[*E, error] {
	return func(yield func(*E, error) bool) {
		in := json.NewDecoder(body)
		fail := func(err error) {
			yield(nil, fmt.Errorf("the daemon ended its list in the middle: %w; see the daemon's log, and repeat the command", err))
		}
		if _, err := in.Token(); err != nil {
			fail(err)
			return
		}
		for in.More() {
			e := new(E)
			if err := in.Decode(e); err != nil {
				fail(err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if _, err := in.Token(); err != nil {
			fail(err)
		}
	}
}
