package gss

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Bounds of Initiators: maxOwnNames is the largest number of this server's names, restTime the
// pause after a failure before the next attempt with the same peer, and maxResting the largest
// number of such peers that it remembers.
const (
	maxOwnNames = 16
	restTime    = 30 * time.Second
	maxResting  = 1024
)

// Initiators make contexts with a server's clients, for calls to them (RFC 7530 §3.3.3). The
// clients choose the peers, so a peer for which there is no ticket costs one attempt in 30
// seconds at most. The methods may be called from any goroutine.
type Initiators struct {
	mechanism func(own string) Mechanism

	mu         sync.Mutex
	mechanisms map[string]Mechanism
	resting    map[string]resting
}

// A resting peer is not tried again before until.
type resting struct {
	until time.Time
	err   error
}

// NewInitiators returns Initiators. mechanism returns the Mechanism that initiates contexts under
// a name of this server.
func NewInitiators(mechanism func(own string) Mechanism) *Initiators {
	return &Initiators{mechanism: mechanism, mechanisms: make(map[string]Mechanism), resting: make(map[string]resting)}
}

// Prepare gets what a context with cfg.Target needs, to be initiated under this server's name
// own. It replaces cfg.Mechanism. It waits until ctx ends at most.
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

// choose returns the mechanism for the name own. While the target rests after a failure, it
// returns that failure.
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

// rest records a failure. Until its time is over, choose fails for the target. If too many
// targets rest, it forgets those whose time is over, and then any.
func (i *Initiators) rest(target string, err error, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.resting) >= maxResting {
		for t, r := range i.resting {
			if !now.Before(r.until) {
				delete(i.resting, t)
			}
		}
	}
	for t := range i.resting {
		if len(i.resting) < maxResting {
			break
		}
		delete(i.resting, t)
	}
	i.resting[target] = resting{now.Add(restTime), err}
}
