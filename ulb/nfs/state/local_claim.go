package state

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A localClaim holds the server's claims on one file: locks in the local file system that keep the
// processes of this machine from the ranges that clients have locked. Each byte is claimed in the mode
// of the strongest lock that clients hold on it.
type localClaim struct {
	// mu serializes the changes of clients' locks that need claims on the file, so that the claims
	// match the lock table. It also guards held and whole. A goroutine takes it before Manager.mu.
	mu      sync.Mutex
	key     FileKey
	claimer vfs.Claimer
	// prompt is set while a goroutine that must not wait holds mu: its calls go there.
	prompt vfs.PromptClaims
	// held is true if the kernel may hold claims of the server on the file.
	held bool
	// whole, if its mode is not 0, is one claim over all locks of the file (maxFileClaims).
	whole need
	// users counts the goroutines that hold mu or wait for it, and the entries in Manager.giving. ranges is
	// the number of ranges that are locked through the claimer. dropped are ranges whose locks ended and
	// that giveUp has not seen yet. Manager.mu guards these fields.
	users, ranges int
	dropped       []byterange.Range
}

// claimed returns the localClaim of a file, with its mutex held until the caller calls unclaimed. With try it returns nil
// where it, or a claim in a mode up to most, would wait.
func (m *Manager) claimed(key FileKey, claimer vfs.Claimer, try bool, most vfs.ClaimMode) *localClaim {
	m.mu.Lock()
	c := m.files.claims[key]
	if c == nil {
		c = &localClaim{key: key, claimer: claimer}
		m.files.claims[key] = c
	}
	if try && !c.mu.TryLock() {
		m.mu.Unlock()
		return nil
	}
	c.users++
	m.mu.Unlock()
	if !try {
		c.mu.Lock()
		return c
	}
	if prompt, ok := c.claimer.(vfs.PromptClaimer); ok {
		if now, ok := prompt.Prompt(key.Handle, most); ok {
			c.prompt = now
			return c
		}
	}
	m.unclaimed(c)
	return nil
}

// through returns the Claimer that the holder of c.mu calls.
func (c *localClaim) through() vfs.Claimer {
	if c.prompt != nil {
		return c.prompt
	}
	return c.claimer
}

// unclaimed releases the localClaim, and keeps c.mu until it has decided whether to forget it.
func (m *Manager) unclaimed(c *localClaim) {
	defer c.mu.Unlock()
	if c.prompt != nil {
		c.prompt.Release()
		c.prompt = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.users--; c.users == 0 && !c.held {
		delete(m.files.claims, c.key)
	}
}

// followLocked makes the kernel's claims within r match the lock table. The caller does not hold m.mu.
func (m *Manager) followLocked(c *localClaim, r byterange.Range) error {
	switch n := m.rangesOf(c); {
	case n == 0:
		c.dropLocked()
		return nil
	case n > maxFileClaims, c.whole.mode != 0 && n > maxFileClaims/2:
		changed := r
		if c.whole.mode == 0 {
			changed = byterange.Range{Last: byterange.ToEnd}
		}
		if c.claimWholeLocked(m.within(c.key, changed)) {
			return c.claimLocked(beside(r, c.whole)) // give up the claims where no client has a lock
		}
		// A process of this machine holds a lock between the clients' locks: claim each range.
	}
	r = c.around(r)
	c.whole = need{}
	return c.claimLocked(cover(r, m.within(c.key, r)))
}

// around returns the smallest range that contains r and, if c.whole is set, c.whole.
func (c *localClaim) around(r byterange.Range) byterange.Range {
	if w := c.whole; w.mode != 0 {
		r.First, r.Last = min(r.First, w.start), max(r.Last, w.last)
	}
	return r
}

// beside returns the parts of r before and after w, as ranges to give up.
func beside(r byterange.Range, w need) (all []need) {
	if r.First < w.start {
		all = append(all, need{start: r.First, last: min(r.Last, w.start-1)})
	}
	if r.Last > w.last {
		all = append(all, need{start: max(r.First, w.last+1), last: r.Last})
	}
	return all
}

// giveUp weakens the server's claims on a file after clients' locks of the dropped ranges ended, by one
// claim for each piece that needs a weaker mode. It waits for the file system. The caller has counted
// itself in c.users.
func (m *Manager) giveUp(c *localClaim) {
	c.mu.Lock()
	defer m.unclaimed(c)
	m.mu.Lock()
	dropped := c.dropped
	c.dropped = nil
	m.mu.Unlock()
	if len(dropped) == 0 {
		return // another goroutine was faster
	}
	around := dropped[0]
	for _, d := range dropped {
		around.First, around.Last = min(around.First, d.First), max(around.Last, d.Last)
	}
	// If a change of claims fails, the kernel keeps needless claims until the file is closed.
	if m.rangesOf(c) == 0 || c.whole.mode != 0 {
		_ = m.followLocked(c, around)
	} else {
		_ = c.claimLocked(weaker(cover(around, m.within(c.key, around)), cover(around, dropped)))
	}
}

// dropLocked ends all claims of the server on the file.
func (c *localClaim) dropLocked() {
	if c.held {
		c.through().DropClaims(c.key.Handle)
		c.held, c.whole = false, need{}
	}
}

// claimWholeLocked makes one claim from the first to the last lock, in the strongest mode, and returns
// false if that fails. locks are all locks through the claimer or, if there is such a claim already,
// those in the range that has changed since.
func (c *localClaim) claimWholeLocked(locks []byterange.Range) bool {
	wanted := c.whole
	for _, l := range locks {
		if wanted.mode == 0 {
			wanted.start = l.First
		}
		wanted = need{min(wanted.start, l.First), max(wanted.last, l.Last), max(wanted.mode, modeOf(&l))}
	}
	if wanted == c.whole {
		return true
	}
	if c.claimLocked([]need{wanted}) != nil {
		return false
	}
	c.whole = wanted
	return true
}

// claimLocked makes the wanted claims in the file system.
func (c *localClaim) claimLocked(wanted []need) error {
	c.held = true
	for _, w := range wanted {
		// The length of all bytes but the last one is vfs.ToEnd, which means all bytes: claim the first one alone.
		if w.start == 0 && w.last == vfs.ToEnd-1 {
			if err := c.claimOneLocked(need{0, 0, w.mode}); err != nil {
				return err
			}
			w.start = 1
		}
		if err := c.claimOneLocked(w); err != nil {
			return err
		}
	}
	return nil
}

func (c *localClaim) claimOneLocked(w need) error {
	length := uint64(vfs.ToEnd)
	if w.last != vfs.ToEnd {
		length = w.last - w.start + 1
	}
	if err := c.through().Claim(c.key.Handle, w.start, length, w.mode); err != nil && !errors.Is(err, vfs.ErrNotSupported) {
		return err
	}
	return nil
}

// weaker returns the needs in now, after a change, that have a weaker mode for some of their bytes than
// those before it (was). Both are in ascending order and without gaps.
func weaker(now, was []need) (all []need) {
	for _, n := range now {
		for len(was) > 0 && was[0].last < n.start {
			was = was[1:]
		}
		for _, w := range was {
			if w.start > n.last {
				break
			}
			if w.mode > n.mode {
				all = append(all, n)
				break
			}
		}
	}
	return all
}

// A need is a range, and the mode in which the server has to claim it.
type need struct {
	start, last uint64
	mode        vfs.ClaimMode
}

// rangesOf returns the number of ranges locked through the claimer of c.
func (m *Manager) rangesOf(c *localClaim) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.ranges
}

// within returns the locked ranges of a file that overlap r.
func (m *Manager) within(key FileKey, r byterange.Range) (all []byterange.Range) {
	id := key.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.files.byID[id]; of != nil {
		of.locked.Each(&r, func(s *State, held *byterange.Range) bool {
			if s.Key == key { // a lock through another file system belongs to another localClaim
				all = append(all, *held)
			}
			return true
		})
	}
	return all
}

// An edge is the first byte of a locked range (n is 1), or the byte after its last one (n is -1).
type edge struct {
	at    uint64
	n     int
	write bool
}

// cover cuts r into pieces at each start and end of the given locked ranges. It returns the pieces in
// ascending order, each with the strongest mode of the locks on it, and merges neighbours of the same
// mode. It goes over the edges once, and adds up n to the number of locks on each piece.
func cover(r byterange.Range, within []byterange.Range) (all []need) {
	edges := make([]edge, 0, 2*len(within)+1)
	for _, w := range within {
		edges = append(edges, edge{max(w.First, r.First), 1, w.Write})
		if w.Last < r.Last {
			edges = append(edges, edge{w.Last + 1, -1, w.Write})
		}
	}
	edges = append(edges, edge{at: r.First})
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	readers, writers := 0, 0
	for i, e := range edges {
		if e.write {
			writers += e.n
		} else {
			readers += e.n
		}
		p := need{start: e.at, last: r.Last}
		if i+1 < len(edges) {
			if edges[i+1].at == e.at {
				continue
			}
			p.last = edges[i+1].at - 1
		}
		switch {
		case writers > 0:
			p.mode = vfs.ClaimWrite
		case readers > 0:
			p.mode = vfs.ClaimRead
		}
		if n := len(all); n > 0 && all[n-1].mode == p.mode {
			all[n-1].last = p.last
			continue
		}
		all = append(all, p)
	}
	return all
}

func modeOf(r *byterange.Range) vfs.ClaimMode {
	if r.Write {
		return vfs.ClaimWrite
	}
	return vfs.ClaimRead
}

// lockClaimed is an attempt to lock a range of a file with a claimer. It first locks the range in the
// table, which keeps other clients away, then claims it in the file system. If a process of this
// machine has a conflicting lock, lockClaimed undoes the lock in the table. late has the clients whose
// locks conflict.
func (m *Manager) lockClaimed(a *LockArgs, r byterange.Range) (id StateID, d *Denied, verdict Verdict, late courtesy) {
	c := m.claimed(a.Key, a.Claimer, a.Try, modeOf(&r))
	if c == nil {
		return id, nil, WouldWait, late
	}
	defer m.unclaimed(c)
	var undo undo
	g := m.acquire()
	id, d, verdict = g.lock(a, r, &undo)
	g.release()
	if verdict != Granted {
		return id, d, verdict, g.late
	}
	around := c.around(r) // before followLocked, which may change c.whole even if it fails
	err := m.followLocked(c, r)
	if err == nil {
		if a.Held != nil {
			a.Held(undo.before)
		}
		return id, nil, verdict, late
	}
	others := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) // locks of other processes
	passing := errors.Is(err, syscall.ENOLCK) || errors.Is(err, vfs.ErrDelay)
	if !others && !(passing && a.IfWaits) {
		undo.waiter = nil
	}
	m.takeBack(&undo)
	_ = m.followLocked(c, around) // this only weakens claims, so it conflicts with no process
	switch {
	case others:
		if d = localLock(c.through(), c.key.Handle, &r); d == nil {
			d = denied(&r, 0, "") // that lock has ended meanwhile
		}
		return id, d, LockConflict, late
	case passing:
		return id, nil, TryLater, late
	case errors.Is(err, syscall.EROFS):
		return id, nil, ReadOnly, late
	case errors.Is(err, syscall.ESTALE):
		return id, nil, NoFile, late
	case a.Try && errors.Is(err, vfs.ErrWouldBlock):
		return id, nil, WouldWait, late
	}
	return id, nil, Broken, late
}

// localLock returns the lock of a local process that conflicts with r, or nil.
func localLock(claimer vfs.Claimer, h vfs.Handle, r *byterange.Range) *Denied {
	found, ok, err := claimer.TestClaim(h, r.First, r.Length(), modeOf(r))
	if err != nil || !ok {
		return nil
	}
	return &Denied{Offset: found.Start, Length: found.Length, Write: found.Mode == vfs.ClaimWrite}
}

// undo has the range that a lock request locked, and the state as it was before: its ranges within
// that range, and its seqid. made is true if the request made the state.
type undo struct {
	state  *State
	made   bool
	locked byterange.Range
	before []byterange.Range
	seqid  uint32
	// waiter, if not nil, waits again if a process of this machine keeps it from the lock, or if it waited before and the
	// file system cannot claim the lock now.
	waiter *waiter
}

// takeBack undoes a lock that the client was not told about. The caller still holds the mutex of the
// localClaim, so no other call has changed the ranges, but an eviction may have removed the state.
func (m *Manager) takeBack(u *undo) {
	g := m.acquire()
	defer g.release()
	s := u.state
	if s.file == nil {
		return
	}
	of := s.file
	g.counted(s, of.locked.Unlock(&s.held, u.locked.First, u.locked.Last))
	for _, r := range u.before {
		g.counted(s, of.locked.Lock(&s.held, r))
	}
	s.seqid.Store(u.seqid)
	if u.made {
		g.endLock(s)
	}
	g.released(of)
	if u.waiter != nil {
		u.waiter.quiet = time.Now().Add(2 * LocalRetry)
		of.queue(g, u.waiter) // behind released, which would offer it the lock
	}
}
