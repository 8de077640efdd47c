package nlm

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

const (
	// announceFirst is the time after which the server tells a host again that did not answer. The time doubles, up to
	// announceMost. After announceFor the server gives up: the grace period is over long before.
	announceFirst = 5 * time.Second
	announceMost  = 5 * time.Minute
	announceFor   = 15 * time.Minute
)

// Announce tells all hosts that held locks before this start of the server that they may reclaim them. It returns at
// once. Program.Close ends it.
func (m *Monitor) Announce() {
	g := &m.program.granter
	hosts := m.program.state.FormerHosts()
	if g.dial == nil || len(hosts) == 0 || !g.call() {
		return
	}
	go func() {
		defer g.calling.Done()
		m.announce(g.ctx, hosts)
	}()
}

func (m *Monitor) announce(ctx context.Context, left []state.FormerHost) {
	start := time.Now()
	for wait := announceFirst; ; wait = min(2*wait, announceMost) {
		if left = m.announceOnce(ctx, left); len(left) == 0 || time.Since(start)+wait > announceFor {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// announceOnce tells the hosts, some at a time, and returns those that did not answer.
func (m *Monitor) announceOnce(ctx context.Context, hosts []state.FormerHost) (left []state.FormerHost) {
	var mu sync.Mutex
	var telling sync.WaitGroup
	room := make(chan struct{}, granters)
	for _, h := range hosts {
		room <- struct{}{}
		telling.Go(func() {
			defer func() { <-room }()
			if m.tellRestart(ctx, &h) != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, h)
			}
		})
	}
	telling.Wait()
	return left
}
