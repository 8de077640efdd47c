package krb5

import (
	stdcontext "context"
	"fmt"
	"sync"
)

// maxAsks is the largest number of requests to KDCs that run at once.
const maxAsks = 8

// asks has the requests to KDCs that run now. A request uses a goroutine and a socket. The library
// cannot interrupt it: the library waits for its own time-outs, five seconds for each KDC and
// protocol. So a request continues even if its callers no longer wait for it. Therefore at most
// maxAsks requests run, and at most one for each server.
type asks struct {
	mu       sync.Mutex
	underWay map[string]*ask // the key is the server's principal
}

// An ask is one request. Its result is set before done is closed.
type ask struct {
	done   chan struct{}
	ticket *ticket
	err    error
}

// ask calls f on another goroutine, and waits for its result until ctx ends. If a request for the
// same server already runs, ask waits for the result of that one instead.
func (a *asks) ask(ctx stdcontext.Context, server string, f func() (*ticket, error)) (*ticket, error) {
	q, err := a.join(server, f)
	if err != nil {
		return nil, err
	}
	select {
	case <-q.done:
		return q.ticket, q.err
	case <-ctx.Done():
		return nil, fmt.Errorf("asking the KDC for a ticket for %s: it does not answer: %w", server, stdcontext.Cause(ctx))
	}
}

func (a *asks) join(server string, f func() (*ticket, error)) (*ask, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.underWay[server]; q != nil {
		return q, nil
	}
	if len(a.underWay) >= maxAsks {
		return nil, fmt.Errorf("asking the KDC for a ticket for %s: %d other tickets are being asked for, and the KDC does not answer", server, maxAsks)
	}
	if a.underWay == nil {
		a.underWay = make(map[string]*ask)
	}
	q := &ask{done: make(chan struct{})}
	a.underWay[server] = q
	go func() {
		q.ticket, q.err = f()
		a.mu.Lock()
		delete(a.underWay, server)
		a.mu.Unlock()
		close(q.done)
	}()
	return q, nil
}
