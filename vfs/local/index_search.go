package local

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A search looks for files that are not where they were seen: in the directories
// where they were last, then everywhere. It notes every name that it meets. One
// goroutine searches at a time, for all files that were asked for when it began.
// The calls that ask do not search. A few of them wait for a moment, so that a
// client does not notice the search of a small tree; all others answer that the
// client is to ask again.
//
// A file that a search has not met is stale, and is held for stale for a time:
// clients with handles of files that are gone do not keep the daemon searching.
// For the same reason searches have one part of the time at most.
const (
	searchShare = 10      // searches get one part in so many
	maxWalk     = 4 << 20 // names
	maxWanted   = 1 << 12 // files that one search looks for
	maxVain     = 1 << 16
	vainFor     = time.Minute
	// So many calls wait, each for so long.
	maxSearchWaiters = 8
	searchPatience   = 2 * time.Second
)

// searches are what an index knows of its searches. The index's lock guards it.
type searches struct {
	running   *search                  // nil: none
	notBefore time.Time                // when the next one may begin
	wanted    map[vfs.Handle]struct{}  // what the next one is to look for
	vain      map[vfs.Handle]time.Time // not met by one: stale until then
	waiters   int
	patience  time.Duration
	begins    func() // called by each search first; for tests
}

// A search is one that runs.
type search struct {
	missing map[vfs.Handle]missing // what it has not met yet
	ended   chan struct{}
	looks   bool // it has begun to look
	// partial: it was stopped, or found no descriptor to look with. What it did
	// not meet may be there.
	partial bool
}

// A missing file is being looked for.
type missing struct {
	met chan struct{} // closed when the search meets it, or ends
	// late: it was asked for when the search was at work. Where it is not met it
	// may be where the search had looked already, and the next one looks for it.
	late bool
}

// find opens h, which is at none of its places. ESTALE: it is nowhere. ErrDelay:
// that is not known yet.
func (x *index) find(h *vfs.Handle) (int, error) {
	met, err := x.want(h)
	if met == nil {
		return -1, err
	}
	patience := time.NewTimer(x.patience)
	defer patience.Stop()
	select {
	case <-met:
	case <-patience.C:
	}
	x.mu.Lock()
	x.waiters--
	x.mu.Unlock()
	if fd, err := x.openPlace(h); err == nil || outOfDescriptors(err) {
		return fd, err
	}
	if x.soughtInVain(h) {
		return -1, syscall.ESTALE
	}
	return -1, vfs.ErrDelay
}

// want has h looked for. It returns a channel that is closed when h was met, or
// is not there, and counts the caller among those who wait for that; or it returns
// what the caller is to answer.
func (x *index) want(h *vfs.Handle) (met <-chan struct{}, err error) {
	if x.soughtInVain(h) {
		return nil, syscall.ESTALE
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil && x.notBefore.Sub(x.fs.now()) < x.patience {
		x.begin()
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

// soughtInVain says that a search a short time ago did not meet h.
func (x *index) soughtInVain(h *vfs.Handle) bool {
	now := x.fs.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	until, ok := x.vain[*h]
	if ok && !now.Before(until) {
		delete(x.vain, *h)
		ok = false
	}
	return ok
}

// begin starts a search for what is wanted. x is locked.
func (x *index) begin() {
	s := &search{missing: make(map[vfs.Handle]missing, len(x.wanted)), ended: make(chan struct{})}
	for h := range x.wanted {
		s.missing[h] = missing{met: make(chan struct{})}
	}
	clear(x.wanted)
	x.running = s
	go x.search(s, x.notBefore.Sub(x.fs.now()))
}

// met is told of each file that is seen anywhere. x is locked.
func (x *index) met(h vfs.Handle) {
	delete(x.vain, h)
	if s := x.running; s != nil {
		if m, ok := s.missing[h]; ok {
			close(m.met)
			delete(s.missing, h)
		}
	}
}

// endSearch waits for the search that runs: x.stop is closed.
func (x *index) endSearch() {
	x.mu.Lock()
	s := x.running
	x.mu.Unlock()
	if s != nil {
		<-s.ended
	}
}

// search is the goroutine of one, which looks after a pause.
func (x *index) search(s *search, pause time.Duration) {
	defer close(s.ended)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.stop:
	}
	began := x.fs.now()
	x.mu.Lock()
	s.looks = true
	x.mu.Unlock()
	if x.begins != nil {
		x.begins()
	}
	x.lookNearby(s)
	x.mu.Lock()
	missing := len(s.missing)
	x.mu.Unlock()
	if missing > 0 {
		x.walk(s)
	}
	now := x.fs.now()
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

// lookNearby looks for what is missing in the directories where it was seen.
func (x *index) lookNearby(s *search) {
	x.mu.Lock()
	var missing []vfs.Handle
	for h := range s.missing {
		missing = append(missing, h)
	}
	x.mu.Unlock()
	seen := map[vfs.Handle]bool{}
	for i := range missing {
		for _, p := range x.places(&missing[i]) {
			if !seen[p.dir] {
				seen[p.dir] = true
				x.scan(s, &p.dir, nil)
			}
		}
	}
}

// walk looks at the whole tree, breadth first, holding one directory open at a
// time.
func (x *index) walk(s *search) {
	x.fs.stats.searches.Add(1)
	todo := []vfs.Handle{x.root}
	for seen := 0; len(todo) > 0 && seen < maxWalk; todo = todo[1:] {
		seen += x.scan(s, &todo[0], func(h vfs.Handle) { todo = append(todo, h) })
	}
}

// scan notes the names in the directory h, and returns how many there are. It
// calls sub for each directory.
func (x *index) scan(s *search, h *vfs.Handle, sub func(vfs.Handle)) (names int) {
	dir, err := x.openDir(h)
	if err != nil {
		s.partial = s.partial || outOfDescriptors(err)
		return 0
	}
	defer unix.Close(dir)
	list, err := x.fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		s.partial = s.partial || outOfDescriptors(err)
		return 0
	}
	defer unix.Close(list)
	buf := make([]byte, namesAtOnce)
	for {
		select {
		case <-x.stop:
			s.partial = true
			return names
		default:
		}
		n, err := sysGetdents(list, buf)
		if err != nil || n == 0 {
			return names
		}
		for e, rest := nextDirent(buf[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if vfs.IsDot(e.name) {
				continue
			}
			names++
			if err := x.noteEntry(dir, h, e.name, sub); outOfDescriptors(err) {
				s.partial = true
			}
		}
	}
}

// openDir opens the directory h where it was seen.
func (x *index) openDir(h *vfs.Handle) (int, error) {
	if *h == x.root {
		return x.openRoot()
	}
	return x.openPlace(h)
}

// noteEntry notes name in the directory dir, whose handle is h.
func (x *index) noteEntry(dir int, h *vfs.Handle, name []byte, sub func(vfs.Handle)) error {
	fd, err := sysOpenat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = fstat(fd, &st); err != nil {
		return err
	}
	is, err := identify(fd, &st)
	if err != nil {
		return err
	}
	x.room(false)
	x.note(*h, is, name)
	if sub != nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		sub(is)
	}
	return nil
}
