package state

import (
	"context"
	"errors"
	"time"
)

// This file ends state at the administrator's order.

// Which selects opens. A field that is zero selects all.
type Which struct {
	Client *Client
	// Key selects the opens of one file, by whichever file system it is shown.
	Key *FileKey
	// Export selects the opens by one export (State.Export).
	Export uint32
}

// Release takes away those opens, with the locks made through them, and returns how many opens it took. Requests with
// the stateids get NFS4ERR_ADMIN_REVOKED until their clients free them, and SEQUENCE reports that there are such stateids
// (RFC 8881 §8.5, §18.46.3). A host hears nothing of it: NLM has no message for that.
//
// As Revoke does, Release first writes into the records of the clients that they may reclaim nothing after a restart. It
// waits for the disk, and the caller holds no lock. It takes the opens in pieces (walk), and may leave one that began
// after Release.
func (m *Manager) Release(which Which) (took int) {
	var file fileID
	if which.Key != nil {
		file = which.Key.id()
	}
	those := func(s *State) bool {
		return s.Kind == KindOpen && s.file != nil && (which.Client == nil || s.Client == which.Client) &&
			(which.Key == nil || s.file.id == file) && (which.Export == 0 || s.Export == which.Export)
	}
	m.walk(func(g *guard, s *State, _ uint64, _ int) (uint64, int) {
		if those(s) {
			g.markRevoked(s.Client)
		}
		return 0, 1
	}, nil)
	m.rewrite()
	m.walk(func(g *guard, s *State, _ uint64, room int) (uint64, int) {
		if !those(s) || !s.Client.known.reclaim.revoked {
			return 0, 1
		}
		unfinished, steps := g.takeOpen(s, room)
		if unfinished {
			return 1, steps
		}
		took++
		return 0, steps
	}, nil)
	return took
}

// markRevoked notes that the record of c has to say that state of the client was revoked.
func (g *guard) markRevoked(c *Client) {
	k := &c.known.reclaim
	if k.revoked {
		return
	}
	k.revoked = true
	g.marked = append(g.marked, c)
	if r := g.claimOf(c); r != nil {
		r.Revoked = true // so that the next incarnation writes a record of its own
	}
}

// takeOpen revokes an open, after the locks made through it, in at most room steps and one. It returns unfinished if
// there are more locks. The open and each lock are marked as revoked when they end, and not before: a client may free
// what is marked.
func (g *guard) takeOpen(s *State, room int) (unfinished bool, steps int) {
	of, locked := s.file, len(s.locks) > 0
	for _, lock := range s.locks {
		n := len(lock.held.Ranges())
		if unfinished = steps+n >= room; unfinished {
			n = min(n, room-steps)
		}
		steps += n
		if unfinished {
			g.unlockFirst(lock, n)
			break
		}
		steps++
		lock.revoked.Store(true)
		g.endLock(lock)
	}
	if !unfinished {
		s.revoked.Store(true)
		g.endOpen(s)
		steps++
	}
	if locked {
		g.released(of)
	}
	return unfinished, steps
}

// unlockFirst unlocks the first n ranges of a lock.
func (g *guard) unlockFirst(lock *State, n int) {
	first := lock.held.Ranges()[:n]
	if n == 0 {
		return
	}
	last := first[n-1].Last
	g.giveUpLater(lock.Key, first)
	g.counted(lock, lock.file.locked.Unlock(&lock.held, 0, last))
}

// Expel removes a client with all that it holds, and its record, although its lease may be valid: the client has to
// introduce itself again, and may reclaim nothing. It returns how many opens it took. It waits for the disk, and the caller
// holds no lock. If the record cannot be removed, the client stays without its state, and Expel returns the error.
func (m *Manager) Expel(c *Client) (took int, err error) {
	took = m.Release(Which{Client: c}) // in pieces: the removal of the client then has little to do
	return took, m.evict([]*Client{c}, Ordered)
}

// EndGrace ends the grace period: clients that have not reclaimed their state lose the right to it. It returns false if
// there is no grace period. It waits until the disk has stored the end, which is tried again if it fails, or until ctx
// ends, and then returns the context's cause.
func (m *Manager) EndGrace(ctx context.Context) (was bool, err error) {
	m.mu.Lock()
	if was = m.grace.on.Load(); was {
		m.grace.ending = true
		m.wake()
	}
	m.mu.Unlock()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for m.grace.on.Load() {
		select {
		case <-look.C:
		case <-m.sweeper.ended:
			return was, errClosed
		case <-ctx.Done():
			return was, context.Cause(ctx)
		}
	}
	return was, nil
}

var errClosed = errors.New("the server is ending")
