package state

import (
	"sync"
	"sync/atomic"
)

// givingUp gives up local claims of files in which locks have ended, where the goroutine that ended them must
// not wait. Each file system (its domain) has a queue and, while the queue is not empty, a goroutine. So a file
// system that hangs keeps only its own claims. Until a claim is given up, only processes of this machine, and
// a LOCK in the same file, have to wait.
type givingUp struct {
	mu     sync.Mutex
	queues map[any]*claimQueue // by domain
	over   bool                // the Manager is closed: the claims end with the file systems
	// busy is the number of queues.
	busy atomic.Int64
}

type claimQueue struct {
	claims []*localClaim
	ended  chan struct{} // closed when the goroutine ends
}

// soon has c given up. It does not wait. The caller has counted an entry in c.users.
func (w *givingUp) soon(m *Manager, c *localClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	domain := c.key.Domain
	q := w.queues[domain]
	if q == nil {
		q = &claimQueue{ended: make(chan struct{})}
		if w.queues == nil {
			w.queues = make(map[any]*claimQueue)
		}
		w.queues[domain] = q
		w.busy.Add(1)
		go w.run(m, domain, q)
	}
	q.claims = append(q.claims, c)
}

func (w *givingUp) run(m *Manager, domain any, q *claimQueue) {
	defer close(q.ended)
	for {
		w.mu.Lock()
		if len(q.claims) == 0 || w.over {
			delete(w.queues, domain)
			w.busy.Add(-1)
			w.mu.Unlock()
			return
		}
		c := q.claims[0]
		q.claims[0] = nil
		q.claims = q.claims[1:]
		w.mu.Unlock()
		m.giveUp(c)
	}
}

// wait returns when the claims in the file system that are to be given up now are given up.
func (w *givingUp) wait(domain any) {
	w.mu.Lock()
	q := w.queues[domain]
	w.mu.Unlock()
	if q != nil {
		<-q.ended
	}
}

// end makes the goroutines give up no further claims. It does not wait for them.
func (w *givingUp) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// giveUpNow gives up those claims on a file that are in a queue. The file systems that show the file may be
// several, and the server's claims in one of them conflict with those in the others. It waits for them.
func (m *Manager) giveUpNow(id fileID) {
	m.eachQueued(id, func(c *localClaim) {
		c.users++
		m.mu.Unlock()
		m.giveUp(c)
		m.mu.Lock()
	})
}

// givesUp reports whether giveUpNow may wait.
func (m *Manager) givesUp(id fileID) (waits bool) {
	m.eachQueued(id, func(c *localClaim) {
		if !c.mu.TryLock() {
			waits = true
			return
		}
		waits = waits || len(c.dropped) > 0
		c.mu.Unlock()
	})
	return waits
}

// eachQueued calls f, with the Manager's mutex, for the claims on a file in those file systems that have a queue.
func (m *Manager) eachQueued(id fileID, f func(c *localClaim)) {
	w := &m.giving
	if w.busy.Load() == 0 {
		return
	}
	w.mu.Lock()
	domains := make([]any, 0, len(w.queues))
	for domain := range w.queues {
		domains = append(domains, domain)
	}
	w.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, domain := range domains {
		key := FileKey{domain, id.handle}
		if c := m.files.claims[key]; c != nil && key.id() == id {
			f(c)
		}
	}
}
