package state

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A localClaim is what is held of one file towards the processes of this machine: the
// strongest of the locks that clients have of each byte. Changes of a file's locks that
// go with a claim come one after the other: what is held follows the table.
type localClaim struct {
	// mu is held while the locks of the file change, and taken before Manager.mu.
	mu      sync.Mutex
	key     FileKey
	claimer vfs.Claimer
	// held: something may be claimed. It is guarded by mu.
	held bool
	// whole, where its mode is not 0, is claimed as one, because there are too many ranges to
	// claim each. It is guarded by mu.
	whole need
	// users are those that have mu or wait for it, and ranges is how many are locked by way of
	// the claimer. Manager.mu guards both.
	users, ranges int
}

// claimed is the claim of a file, locked. Each is followed by unclaimed.
func (m *Manager) claimed(key FileKey, claimer vfs.Claimer) *localClaim {
	m.mu.Lock()
	c := m.files.claims[key]
	if c == nil {
		c = &localClaim{key: key, claimer: claimer}
		if m.files.claims == nil {
			m.files.claims = make(map[FileKey]*localClaim)
		}
		m.files.claims[key] = c
	}
	c.users++
	m.mu.Unlock()
	c.mu.Lock()
	return c
}

func (m *Manager) unclaimed(c *localClaim) {
	held := c.held
	c.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.users--; c.users == 0 && !held {
		delete(m.files.claims, c.key)
	}
}

// follow makes what is claimed of a range what the table says. It is called with c.mu
// held, and without m.mu.
func (m *Manager) follow(c *localClaim, r byteRange) error {
	span, n := m.spanOf(c)
	switch {
	case n == 0:
		c.drop()
		return nil
	case n > maxFileClaims, c.whole.mode != 0 && n > maxFileClaims/2:
		if c.claimWhole(span) {
			return nil
		}
		// A process of this machine has locked something between them.
	case c.whole.mode != 0:
		r = byteRange{start: min(r.start, c.whole.start), last: max(r.last, c.whole.last)}
		c.whole = need{}
	}
	return c.claim(cover(r, m.within(c.key, r)))
}

// giveUp makes what is claimed of a file follow the locks that are left, where others were
// dropped. Each piece that is weaker than it was is claimed anew, once, however many locks
// were dropped. giveUp waits for the file system.
func (m *Manager) giveUp(c *localClaim, dropped []byteRange) {
	c.mu.Lock()
	defer m.unclaimed(c)
	around := dropped[0]
	for _, d := range dropped {
		around.start, around.last = min(around.start, d.start), max(around.last, d.last)
	}
	// What fails leaves more claimed than there need be, until the file is closed.
	if _, n := m.spanOf(c); n == 0 || c.whole.mode != 0 {
		_ = m.follow(c, around)
	} else {
		_ = c.claim(weaker(cover(around, m.within(c.key, around)), cover(around, dropped)))
	}
}

// drop ends all claims on the file. c.mu is held.
func (c *localClaim) drop() {
	if c.held {
		c.claimer.DropClaims(c.key.Handle)
		c.held, c.whole = false, need{}
	}
}

// claimWhole claims all that lies between the first and the last lock, as the strongest of
// them: it is false where that cannot be had. c.mu is held.
func (c *localClaim) claimWhole(span byteRange) bool {
	wanted := need{span.start, span.last, span.mode()}
	if w := c.whole; w.mode != 0 {
		wanted = need{min(w.start, wanted.start), max(w.last, wanted.last), max(w.mode, wanted.mode)}
	}
	if wanted == c.whole {
		return true
	}
	if c.claim([]need{wanted}) != nil {
		return false
	}
	c.whole = wanted
	return true
}

// claim claims what is wanted. c.mu is held.
func (c *localClaim) claim(wanted []need) error {
	c.held = true
	for _, w := range wanted {
		length := uint64(vfs.ToEnd)
		if w.last != vfs.ToEnd {
			length = w.last - w.start + 1
		}
		if err := c.claimer.Claim(c.key.Handle, w.start, length, w.mode); err != nil && !errors.Is(err, vfs.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// weaker are those of now that are weaker than was somewhere. Both are pieces of the same
// range, in order.
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

// A need is what is to be claimed of a range.
type need struct {
	start, last uint64
	mode        vfs.ClaimMode
}

// spanOf is what all that is locked of a file lies within, and how many ranges are to be
// claimed.
func (m *Manager) spanOf(c *localClaim) (span byteRange, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.files.byID[c.key.id()]; of != nil {
		span, _ = of.locked.span()
	}
	return span, c.ranges
}

// within are the locked ranges of a file that overlap r.
func (m *Manager) within(key FileKey, r byteRange) (all []byteRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.files.byID[key.id()]; of != nil {
		of.locked.each(&r, false, func(l *lockedRange) bool {
			if l.s.Key == key { // else another file system claims it
				all = append(all, l.byteRange)
			}
			return true
		})
	}
	return all
}

// An edge is where a range begins or ends.
type edge struct {
	at uint64
	// n is 1 where one begins, and -1 behind its last byte.
	n     int
	write bool
}

// cover cuts r where one of within begins or ends, and says what the strongest is of each
// piece.
func cover(r byteRange, within []byteRange) (all []need) {
	edges := make([]edge, 0, 2*len(within)+1)
	for _, w := range within {
		edges = append(edges, edge{max(w.start, r.start), 1, w.write})
		if w.last < r.last {
			edges = append(edges, edge{w.last + 1, -1, w.write})
		}
	}
	edges = append(edges, edge{at: r.start})
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	readers, writers := 0, 0
	for i, e := range edges {
		if e.write {
			writers += e.n
		} else {
			readers += e.n
		}
		p := need{start: e.at, last: r.last}
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

func (r *byteRange) mode() vfs.ClaimMode {
	if r.write {
		return vfs.ClaimWrite
	}
	return vfs.ClaimRead
}

// lockClaimed is Lock for a file that is claimed as well: the table first, which keeps
// other clients off, then the claim, and back again where a process of this machine
// stands in the way.
func (m *Manager) lockClaimed(a *LockArgs, r byteRange) (id nfs4wire.StateID4, d *Denied, status Status) {
	for {
		var late courtesy
		id, d, status = m.lockOnce(a, r, &late)
		// Without the claim: a client that is sent away may have locks of this file.
		if late.none() || !m.expel(late.clients) {
			return id, d, status
		}
	}
}

// lockOnce is lockClaimed, which says who without a lease stood in the way.
func (m *Manager) lockOnce(a *LockArgs, r byteRange, late *courtesy) (id nfs4wire.StateID4, d *Denied, status Status) {
	c := m.claimed(a.Key, a.Claimer)
	defer m.unclaimed(c)
	var undo undo
	var l leftovers
	m.mu.Lock()
	id, d, status = m.lock(a, r, &l, late, &undo)
	m.mu.Unlock()
	m.finish(&l)
	if status != nfs4wire.NFS4OK {
		return id, d, status
	}
	err := m.follow(c, r)
	if err == nil {
		return id, nil, status
	}
	m.takeBack(&undo)
	_ = m.follow(c, r) // weaker than it was, which does not fail for others' sake
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return id, m.localLock(c, &r), nfs4wire.NFS4ErrDenied
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, vfs.ErrDelay):
		return id, nil, nfs4wire.NFS4ErrDelay
	case errors.Is(err, syscall.EROFS):
		return id, nil, nfs4wire.NFS4ErrOpenMode
	case errors.Is(err, syscall.ESTALE):
		return id, nil, nfs4wire.NFS4ErrStale
	}
	return id, nil, nfs4wire.NFS4ErrServerFault
}

// localLock is a lock of a process of this machine that stands against r. Its owner is
// of no client. Where it is gone by now, it is said to be all that was asked for.
func (m *Manager) localLock(c *localClaim, r *byteRange) *Denied {
	d := denied(r, 0, "")
	found, ok, err := c.claimer.TestClaim(c.key.Handle, d.Offset, d.Length, r.mode())
	if err == nil && ok {
		return &Denied{Offset: found.Start, Length: found.Length, Write: found.Mode == vfs.ClaimWrite}
	}
	return d
}

// undo is how a lock is taken back.
type undo struct {
	state *State
	made  bool // the state was made for it
	// locked is what was locked, and before what the state held of it.
	locked byteRange
	before ranges
	seqid  uint32
}

// takeBack undoes a lock that was not told the client. As long as the file's claim is
// held no other call has changed what the state holds; it may have dropped it.
func (m *Manager) takeBack(u *undo) {
	var l leftovers
	m.mu.Lock()
	if s := u.state; s.file != nil {
		of := s.file
		m.relock(s, u.locked, func(rs ranges) ranges {
			rs = rs.unlock(u.locked.start, u.locked.last)
			for _, r := range u.before {
				rs = rs.lock(r)
			}
			return rs
		})
		s.seqid.Store(u.seqid)
		if u.made {
			m.endLock(s, false, &l)
		}
		m.released(of, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
}
