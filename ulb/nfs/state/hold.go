package state

import (
	"slices"
	"sync"
	"time"
)

// A Hold keeps accesses of others from a file or a directory. An OPEN, or a SHARE of NLM, that denies writing has one
// until it is granted; then its deny bits stop the others. A delegation would have one for as long as it lasts.
type Hold struct {
	// Key is the file, or the directory of names.
	Key FileKey
	// Stops are the accesses that the hold stops.
	Stops Uses
	// Client is the client whose own accesses go on, or nil. A caller is that client if its session or its stateid
	// says so.
	Client *Client
	// Conflict decides what the caller of a stopped access is told: No, Repeat, or Delayed, which makes the call go on
	// after Lift. Of Delayed the caller hears Repeat if it has no Later. Conflict is called without a lock, perhaps
	// often. i is valid during the call.
	Conflict func(i *Intent) Answer

	mu       sync.Mutex
	released bool
	waiting  []func()
}

// Grant makes h stop further accesses. It returns false, and h stops nothing, if a change of the file is under way
// that h would stop, or seems to be: so what the caller of Grant then reads of the file stays true.
func (m *Manager) Grant(h *Hold) bool {
	return m.announce(h, 0)
}

// announce is Grant. It waits for changes that are under way for at most this time.
func (m *Manager) announce(h *Hold, long time.Duration) bool {
	h.mu.Lock()
	h.released = false // it may have been granted before
	h.mu.Unlock()
	m.files.denials.hold(h, true)
	if m.ways.of(&h.Key.Handle).quiet(long) {
		return true
	}
	m.Lift(h)
	return false
}

// Lift ends h. Calls that wait for it go on.
func (m *Manager) Lift(h *Hold) {
	m.files.denials.hold(h, false)
	h.mu.Lock()
	waiting := h.waiting
	h.released, h.waiting = true, nil
	h.mu.Unlock()
	for _, again := range waiting {
		again()
	}
}

// await calls again once, after Lift, perhaps before await returns.
func (h *Hold) await(again func()) {
	h.mu.Lock()
	if !h.released {
		h.waiting = append(h.waiting, again)
		again = func() {}
	}
	h.mu.Unlock()
	again()
}

// hold adds h to the holds of its file, or removes it.
func (d *denials) hold(h *Hold, add bool) {
	id := h.Key.id()
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.holds)
	if add {
		d.holds[id] = append(d.holds[id], h)
	} else if left := slices.DeleteFunc(d.holds[id], func(x *Hold) bool { return x == h }); len(left) > 0 {
		d.holds[id] = left
	} else {
		delete(d.holds, id)
	}
	d.all.Add(int64(len(d.holds) - before))
	d.held.Store(int64(len(d.holds)))
}

// heldBy returns a hold on a file that stops an access, or nil. If the caller has a hold itself, own, only earlier ones
// count: so of two callers with holds, one goes on.
func (d *denials) heldBy(id fileID, i *Intent, own *Hold) *Hold {
	if d.held.Load() == 0 {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, h := range d.holds[id] {
		if h == own {
			break
		}
		if h.Stops.Has(i.Use) && !i.isOf(h.Client) {
			return h
		}
	}
	return nil
}

// isOf reports whether the caller is known to be the client c.
func (i *Intent) isOf(c *Client) bool {
	return c != nil && (i.Client == c || i.By != nil && i.By.Client == c)
}

// stopped returns the answer to an access that h stops.
func (h *Hold) stopped(i *Intent) Answer {
	copied := *i // which escapes, so that the caller's need not
	switch a := h.Conflict(&copied); {
	case a != Delayed:
		return a
	case i.Later == nil:
		return Repeat
	}
	*i.Later = Later{hold: h}
	return Delayed
}
