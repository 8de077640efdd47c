package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
)

// Before is what an owner held of a range before it got a lock there.
type Before []byterange.Range

// HostRestore takes a lock back of which its owner does not know: of the range r the owner then has what it held before.
// last returns what that was (LockArgs.Held), or false if the lock is to stay. It is called once, while no other call
// changes the owner's locks, and must not call the Manager. HostRestore returns what last did.
func (m *Manager) HostRestore(r *HostRange, last func() (before Before, is bool)) (done bool) {
	m.hostChange(r, func(g *guard, what *byterange.Range, id fileID) Verdict {
		var before Before
		if before, done = last(); done {
			g.hostRestore(r, what, id, before)
		}
		return Granted
	})
	return done
}

func (g *guard) hostRestore(r *HostRange, what *byterange.Range, id fileID, before Before) {
	s := g.hostLockState(r, id)
	if s == nil {
		return
	}
	of := s.file
	now := s.held.Ranges().Part(what.First, what.Last)
	g.counted(s, of.locked.Unlock(&s.held, what.First, what.Last))
	for _, b := range before {
		for _, n := range now {
			// If a part was revoked meanwhile, the owner does not get it back.
			if part := (byterange.Range{First: max(b.First, n.First), Last: min(b.Last, n.Last), Write: b.Write}); part.First <= part.Last {
				g.hostRelock(s, part, n.Write)
			}
		}
	}
	if len(s.held.Ranges()) == 0 {
		g.endLock(s)
	}
	g.released(of)
}

// hostRelock locks again what the owner of s held before, in place of a lock of this mode. If that was a read lock,
// others may have read locks since: then the owner gets no write lock, but a read lock.
func (g *guard) hostRelock(s *State, r byterange.Range, wrote bool) {
	if r.Write && !wrote {
		s.file.locked.Conflicts(&r, s.Owner, func(*State, *byterange.Range) bool {
			r.Write = false
			return false
		})
	}
	g.counted(s, s.file.locked.Lock(&s.held, r))
}
