package gss

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Limits of Initiators. maxOwnNames is the largest number of names of this server. restTime is the
// time between a failure and the next attempt with the same peer. maxResting is the largest number
// of peers whose failures are stored.
const (
	maxOwnNames = 16
	restTime    = 30 * time.Second
	maxResting  = 1024
)

// Initiators prepares contexts with a server's clients, for the server's calls to them (RFC 7530
// §3.3.3). After a failure with a peer, it does not try that peer again for 30 seconds, because any
// client can name a peer for which the KDC has no ticket. The methods may be called from any
// goroutine.
type Initiators struct {
	mechanism func(own string) Mechanism

	mu         sync.Mutex
	mechanisms map[string]Mechanism
	resting    map[string]resting
}

// A resting is the last failure with a peer. The field until is the earliest time for a new
// attempt.
type resting struct {
	until time.Time
	err   error
}

// NewInitiators returns Initiators. The argument mechanism is a function that returns the Mechanism
// for contexts in which this server has the name that the parameter own gives.
func NewInitiators(mechanism func(own string) Mechanism) *Initiators {
	return &Initiators{mechanism: mechanism, mechanisms: make(map[string]Mechanism), resting: make(map[string]resting)}
}

// Prepare is like the function Prepare, for a context with cfg.Target. The parameter own is the
// name that this server has in the context. Prepare ignores cfg.Mechanism. It returns the stored
// error if an attempt with cfg.Target has failed in the last 30 seconds.
func (i *Initiators) Prepare(ctx context.Context, own string, cfg ClientConfig) (*Prepared, error) {
	m, err := i.choose(own, cfg.Target, time.Now())
	if err != nil {
		return nil, err
	}
	cfg.Mechanism = m
	p, err := Prepare(ctx, cfg)
	if err != nil {
		i.rest(cfg.Target, err, time.Now())
	}
	return p, err
}

// choose returns the mechanism for contexts in which this server has the name that the parameter
// own gives. If an attempt with target has failed within restTime, choose returns an error that
// wraps that attempt's error. It also fails if own is a new name and there are already maxOwnNames
// names.
func (i *Initiators) choose(own, target string, now time.Time) (Mechanism, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r, ok := i.resting[target]; ok && now.Before(r.until) {
		return nil, fmt.Errorf("%w; it is tried again in %v", r.err, r.until.Sub(now).Round(time.Second))
	}
	m := i.mechanisms[own]
	if m != nil {
		return m, nil
	}
	if len(i.mechanisms) >= maxOwnNames {
		return nil, fmt.Errorf("gss: context with %s: contexts are initiated under %d names already", target, maxOwnNames)
	}
	m = i.mechanism(own)
	i.mechanisms[own] = m
	return m, nil
}

// rest stores the error of a failed attempt to make a context with target. The error is valid for
// restTime. If maxResting errors are stored already, rest deletes the outdated ones, and then any
// others until fewer than maxResting are left.
func (i *Initiators) rest(target string, err error, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.resting) >= maxResting {
		maps.DeleteFunc(i.resting, func(_ string, r resting) bool { return !now.Before(r.until) })
	}
	for t := range i.resting {
		if len(i.resting) < maxResting {
			break
		}
		delete(i.resting, t)
	}
	i.resting[target] = resting{now.Add(restTime), err}
}
