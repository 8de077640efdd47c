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
// (RFC 8881 §8.5, §18.46.3).
//
// As Revoke does, Release first writes into the records of the clients that they may reclaim nothing after a restart,
// neither what was taken nor anything else. That ends when the client has freed all stateids that were taken; in minor
// version 0, when it has closed the files. A host hears nothing of a release, because NLM has no message for that, and
// goes on to believe that it has the locks. So it may reclaim no state of that kind (locks, shares, shares that deny) until
// the server forgets it: when the host restarts, or has held nothing for hostIdle.
//
// Release waits for the disk, and the caller holds no lock. It takes the opens in pieces (piecewise), and may leave one that
// began after Release. The client loses an open with all its locks at once (State.isRevoked), however many pieces it takes to
// end them. Until then it cannot free what it has lost.
func (m *Manager) Release(which Which) (took int) { return m.takeThose(which, nil) }

// takeThose is Release. It calls between as a piecewise does.
func (m *Manager) takeThose(which Which, between func() bool) (took int) {
	var file fileID
	if which.Key != nil {
		file = which.Key.id()
	}
	those := func(s *State) bool {
		return (which.Key == nil || s.file.id == file) && (which.Export == 0 || s.Export == which.Export)
	}
	clients := []*Client{which.Client}
	if which.Client == nil {
		clients = m.AllClients()
	}
	return m.take(clients, those, between)
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
