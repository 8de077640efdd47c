package krb5

import (
	stdcontext "context"
	"fmt"
	"sync"
)

// maxAsks is for how many tickets the KDCs are asked at once.
const maxAsks = 8

// asks are the questions to KDCs that are under way. The library that asks waits until
// its own time-outs, five seconds for each KDC and protocol, and cannot be interrupted:
// a question that is not waited for any more goes on by itself. What silent KDCs
// cost is bounded by that: one goroutine and one socket for each question, of which
// there are maxAsks, and one for each server that a ticket is for.
type asks struct {
	mu       sync.Mutex
	underWay map[string]*ask // by the server's principal
}

// An ask is one question. Its result is there when done is closed.
type ask struct {
	done   chan struct{}
	ticket *ticket
	err    error
}

// ask calls f, unless the ticket for the server is being asked for already, and waits
// for the result until ctx ends.
func (a *asks) ask(ctx stdcontext.Context, server string, f func() (*ticket, error)) (*ticket, error) {
	q, err := a.begin(server, f)
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

func (a *asks) begin(server string, f func() (*ticket, error)) (*ask, error) {
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
