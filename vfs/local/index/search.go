package index

import (
	"maps"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A search looks for files that have none of their known names any more: first in the directories
// where they were seen, then in the whole tree. It records every name that it sees (Note). One
// search runs at a time, on a goroutine of its own, for all files that calls have asked for. A few
// of these calls wait for it for a moment, so that a client does not notice the search of a small
// tree; all others return ErrDelay.
//
// A file that a complete search did not find counts as stale for a minute (vainFor), so that
// clients with handles of removed files do not keep the daemon searching. For the same reason
// searches may take only a tenth of the time (searchShare).
const (
	searchShare = 10      // searches may take 1/searchShare of the time
	maxWalk     = 4 << 20 // most names that one search reads; a search that reads so many counts as complete
	maxWanted   = 1 << 12 // most files that one search looks for
	maxVain     = 1 << 16 // most files in searches.vain
	vainFor     = time.Minute
	// At most maxSearchWaiters calls wait for a search, each for searchPatience.
	maxSearchWaiters = 8
	searchPatience   = 2 * time.Second
)

// searches is the state of an index's searches. The index's mu guards it.
type searches struct {
	running   *search                  // nil if no search runs
	notBefore time.Time                // time from which the next search may begin
	wanted    map[vfs.Handle]struct{}  // files that the next search is to look for
	vain      map[vfs.Handle]time.Time // files that a search did not find, and until when they count as stale
	waiters   int                      // number of calls that wait for the search
	begins    func()                   // called at the beginning of each search; for tests
}

// search holds the state of the running search.
type search struct {
	missing map[vfs.Handle]missing // files that it has not found yet
	ended   chan struct{}          // closed when the search ends
	looks   bool                   // true if it has begun to read directories
	// partial is true if the search was stopped, or could not read a directory for a reason that passes. So
	// the files that it did not find may exist.
	partial bool
}

// A missing is a file that the search looks for.
type missing struct {
	met chan struct{} // closed when the search finds the file, or ends
	// late is true if a call asked for the file after the search had begun to read directories. The
	// file may be in a directory that was read before; so the next search looks for it, too.
	late bool
}

// find waits for a search for the file h, whose known names are all gone, and opens the file.
// ESTALE: a search did not find it. ErrDelay: no search has found h yet; the client tries again.
func (x *Index) find(h *vfs.Handle) (int, error) {
	met, err := x.want(h)
	if met == nil {
		return -1, err
	}
	patience := time.NewTimer(x.Patience)
	defer patience.Stop()
	select {
	case <-met:
	case <-patience.C:
	}
	x.mu.Lock()
	x.waiters--
	x.mu.Unlock()
	if fd, err := x.openPlace(h); err == nil || passes(err) {
		return fd, err
	}
	if x.soughtInVain(h) {
		return -1, syscall.ESTALE
	}
	return -1, vfs.ErrDelay
}

// want adds h to the running or the next search. If the caller may wait, it counts as a waiter, and met
// is closed when the search finds h or ends. Otherwise met is nil, and the caller returns err.
func (x *Index) want(h *vfs.Handle) (met <-chan struct{}, err error) {
	if x.soughtInVain(h) {
		return nil, syscall.ESTALE
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil && x.notBefore.Sub(x.now()) < x.Patience {
		x.beginLocked()
	}
	s := x.running
	if s == nil {
		if len(x.wanted) < maxWanted {
			x.wanted[*h] = struct{}{}
		}
		return nil, vfs.ErrDelay
	}
	m, ok := s.missing[*h]
	if !ok && len(s.missing) < maxWanted {
		m, ok = missing{make(chan struct{}), s.looks}, true
		s.missing[*h] = m
	}
	if !ok || x.waiters >= maxSearchWaiters {
		return nil, vfs.ErrDelay
	}
	x.waiters++
	return m.met, nil
}

// soughtInVain reports whether h counts as stale, because a search failed within the last vainFor.
func (x *Index) soughtInVain(h *vfs.Handle) bool {
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	until, ok := x.vain[*h]
	if ok && !now.Before(until) {
		delete(x.vain, *h)
		ok = false
	}
	return ok
}

// beginLocked starts a search for the files in wanted.
func (x *Index) beginLocked() {
	s := &search{missing: make(map[vfs.Handle]missing, len(x.wanted)), ended: make(chan struct{})}
	for h := range x.wanted {
		s.missing[h] = missing{met: make(chan struct{})}
	}
	clear(x.wanted)
	x.running = s
	go x.search(s, x.notBefore.Sub(x.now()))
}

// metLocked tells the running search that h was found. Note calls it for each file.
func (x *Index) metLocked(h vfs.Handle) {
	delete(x.vain, h)
	if s := x.running; s != nil {
		if m, ok := s.missing[h]; ok {
			close(m.met)
			delete(s.missing, h)
		}
	}
}

// endSearch waits for the running search to end.
func (x *Index) endSearch() {
	x.mu.Lock()
	s := x.running
	x.mu.Unlock()
	if s != nil {
		<-s.ended
	}
}

// SearchAgain is for tests in which local programs move a file just after a search. It waits for
// the running search, empties vain, and lets the next search begin at once.
func (x *Index) SearchAgain() {
	x.endSearch()
	x.mu.Lock()
	x.notBefore = time.Time{}
	clear(x.vain)
	x.mu.Unlock()
}

// search runs on a goroutine of its own. After the given pause it looks for the files in
// s.missing. It may not find all of them. If calls asked for such a file only after the search had
// begun to read directories, the next search looks for the file again (x.wanted). All other files
// that it did not find count as stale (x.vain), unless the search was partial.
func (x *Index) search(s *search, pause time.Duration) {
	defer close(s.ended)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.stop:
	}
	began := x.now()
	x.mu.Lock()
	s.looks = true
	x.mu.Unlock()
	if x.begins != nil {
		x.begins()
	}
	x.lookNearby(s)
	if len(x.missingOf(s)) > 0 {
		x.walk(s)
	}
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running = nil
	x.notBefore = now.Add((searchShare - 1) * now.Sub(began))
	for h, m := range s.missing {
		switch {
		case m.late:
			x.wanted[h] = struct{}{}
		case !s.partial:
			if len(x.vain) >= maxVain {
				clear(x.vain)
			}
			x.vain[h] = now.Add(vainFor)
		}
		close(m.met)
	}
}

// lookNearby reads the directories in which the index last saw the missing files.
func (x *Index) lookNearby(s *search) {
	seen := map[vfs.Handle]bool{}
	for _, h := range x.missingOf(s) {
		for _, p := range x.places(&h) {
			if !seen[p.dir] {
				seen[p.dir] = true
				x.scan(s, &p.dir, nil)
			}
		}
	}
}

func (x *Index) missingOf(s *search) []vfs.Handle {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(s.missing))
}

// walk reads the tree, breadth first, with one directory open at a time, up to maxWalk names.
func (x *Index) walk(s *search) {
	x.walks.Add(1)
	todo := []vfs.Handle{x.root}
	for seen := 0; len(todo) > 0 && seen < maxWalk; todo = todo[1:] {
		seen += x.scan(s, &todo[0], func(h vfs.Handle) { todo = append(todo, h) })
	}
}

// scan calls Note for each name in the directory h and returns the number of names. If sub is not
// nil, it calls sub for each directory.
func (x *Index) scan(s *search, h *vfs.Handle, sub func(vfs.Handle)) (names int) {
	dir, err := x.openPlace(h)
	if err != nil {
		s.partial = s.partial || passes(err)
		return 0
	}
	defer unix.Close(dir)
	err = x.tree.Names(dir, func(name []byte) bool {
		select {
		case <-x.stop:
			s.partial = true
			return false
		default:
		}
		names++
		if err := x.noteEntry(dir, h, name, sub); passes(err) {
			s.partial = true
		}
		return true
	})
	s.partial = s.partial || passes(err)
	return names
}

// noteEntry calls Note for name in dir, whose handle is h, and sub, if not nil, if name is a directory.
func (x *Index) noteEntry(dir int, h *vfs.Handle, name []byte, sub func(vfs.Handle)) error {
	fd, err := x.tree.OpenName(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	is, directory, err := x.tree.Identify(fd)
	if err != nil {
		return err
	}
	x.Room(false)
	x.Note(*h, is, name)
	if sub != nil && directory {
		sub(is)
	}
	return nil
}
