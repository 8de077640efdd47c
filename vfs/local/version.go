package local

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A version says in which state an inode is, as far as the process knows: what its Change is,
// and which attributes that Change was told with.
//
// Owner. Each inode of the process has one version, which all exports that reach the inode share.
//
// A Change names one state. A look at the attributes tells the Change that was there before the
// look, unless the look shows a state that has none yet: that state gets a new Change, which is
// the ctime, or one more than the Change before where the ctime is not above that. So a Change
// never falls, and it moves when the ctime moves, in either direction.
//
// Changes through the process stand between before and after, and moves counts them. While one
// runs, or when one ran during the look, what was looked at may be half of a change: the kernel
// sets the ctime before the size. Such a look tells the Change that was there before it and names
// nothing. An older state is thus never told with a newer Change. A newer state may be told with
// an older Change for as long as the change runs; after gives it its own.
//
// Changes by other programs show in a look only. A program that is in the middle of its change has
// set the ctime already and may leave everything else for later. So all attributes of a state are
// compared, not its ctime alone.
//
// The one question is still: is the inode in the state that this Change names? A cache remembers a
// Change with what it found in that state, looks, and asks. What a cache finds belongs to a Change
// if the looks before and behind the finding tell that Change and are still.
//
// Locks. before, looks at a known state, and still take none. mu orders those that give a new
// Change. It is never held during a system call.
type version struct {
	// moves counts in its low half the changes through the process that run now, and in its high
	// half those that were begun and the states that were found by looks.
	moves atomic.Uint64
	// change is the highest Change that was told. seen is the fingerprint of the attributes that it
	// was told with; 0: no look has shown the state yet.
	change, seen atomic.Uint64
	// foreign is the latest ctime that a change by another process is known to have left, as a
	// stamp; 0: none. quiet is how long the inode is watched after it: see quietAfter.
	foreign atomic.Uint64
	quiet   atomic.Int64

	mu    sync.Mutex
	ctime uint64 // of the state seen, as a stamp
}

const (
	moveBegins = 1<<32 + 1
	moveSeen   = 1 << 32
	movesNow   = 1<<32 - 1
)

// A look is what an inode looks like.
type look struct {
	unix.Stat_t
	change uint64 // names this state or an older one
	still  bool   // change names this state: no change through the process ran during the look
	moves  uint64 // the version's when the look began
}

// fingerprint tells states apart. What reads change is not part of a state, nor is what the file
// system does with its blocks later.
func fingerprint(st *unix.Stat_t) uint64 {
	h := uint64(0)
	for _, w := range [...]uint64{uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec), uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec),
		uint64(st.Size), uint64(st.Mode) | uint64(st.Nlink)<<32, uint64(st.Uid) | uint64(st.Gid)<<32} {
		h = bits.RotateLeft64((h^w)*0x9e3779b97f4a7c15, 29)
	}
	return max(h, 1)
}

// init is for an inode that has the attributes st when the process comes to know it, and of which
// was has what was told before.
func (v *version) init(st *unix.Stat_t, was lastTold) {
	v.ctime = stamp(st)
	v.seen.Store(fingerprint(st))
	v.foreign.Store(max(v.ctime, 1))
	v.quiet.Store(int64(leastQuiet))
	if was.change > 0 && was.seen != v.seen.Load() {
		was.change++
	}
	v.change.Store(max(v.ctime, was.change))
}

// begin begins a look: the caller asks for l's attributes behind it, and calls tell.
func (v *version) begin(l *look) {
	l.moves, l.change = v.moves.Load(), v.change.Load()
}

// tell ends a look.
func (v *version) tell(l *look) {
	l.still = l.moves&movesNow == 0
	f := fingerprint(&l.Stat_t)
	if !l.still || v.seen.Load() == f && v.change.Load() == l.change && v.moves.Load() == l.moves {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.moves.Load() != l.moves {
		l.still = false
		return
	}
	if v.seen.Load() != 0 {
		v.foreignChange(stamp(&l.Stat_t))
	}
	v.moves.Add(moveSeen) // looks that have begun are not still
	l.moves += moveSeen
	v.setLocked(l, f)
}

// setLocked gives the state that l shows a Change. mu is held.
func (v *version) setLocked(l *look, f uint64) {
	v.ctime = stamp(&l.Stat_t)
	l.change = max(v.ctime, v.change.Load()+1)
	v.change.Store(l.change)
	v.seen.Store(f)
}

// before begins a change through the process.
func (v *version) before() { v.moves.Add(moveBegins) }

// after ends it. changed says that it was made, or may have been. l is a look that was begun
// behind it, or nil. Where no other change ran during l, it tells the Change of the new state.
func (v *version) after(changed bool, l *look) (alone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	alone = l != nil && l.moves == v.moves.Load() && l.moves&movesNow == 1
	switch {
	case alone:
		if f := fingerprint(&l.Stat_t); changed || f != v.seen.Load() {
			v.setLocked(l, f)
		}
		l.still, l.moves = true, l.moves-1
	case changed:
		v.change.Add(1)
		v.seen.Store(0)
	}
	v.moves.Add(^uint64(0))
	return alone
}

// still says whether the inode is in the state that change names, as far as looks have shown.
func (v *version) still(change uint64) bool {
	return v.moves.Load()&movesNow == 0 && v.change.Load() == change
}

// lastTold is what has to be kept of a version, so that its Change does not fall.
type lastTold struct {
	change, seen uint64
	ahead        uint64 // how far change is ahead of the ctime
}

// lastTold returns it; false: the ctime says it all.
func (v *version) lastTold() (t lastTold, needed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t = lastTold{change: v.change.Load(), seen: v.seen.Load()}
	if t.seen != 0 {
		t.ahead = t.change - v.ctime
	}
	return t, t.seen == 0 || t.ahead > 0
}

// Change.Atomic says that nothing else changed the object between the two
// looks. Changes through this process know of each other: version.moves counts
// them.
//
// A change by another process between the looks, some microseconds apart, shows
// in nothing. What shows is a state that this process did not leave. So the claim
// is not made for an object that another process has
// changed lately, or may have: where that was one change, for a second; where
// one followed the other, for twice the time between the two.
//
// A client that gets no claim drops what it knows of a directory, and asks again:
// Linux's by an ACCESS for each user and a LOOKUP for each name.

// The bounds of how long an object is watched after a change by another process.
const (
	leastQuiet = time.Second
	mostQuiet  = 10 * time.Second
)

// quietAfter is how long an object is watched after a change by another process
// that came so long after the one before it.
func quietAfter(gap time.Duration) time.Duration {
	if gap >= mostQuiet {
		return leastQuiet
	}
	return min(max(2*gap, leastQuiet), mostQuiet)
}

// grainOf is how far apart two changes of a file are at least that leave different ctimes, where
// one has so many nanoseconds. Kernels take the ctime from a clock that stands for up to 10 ms, and
// file systems may cut it: FAT keeps even seconds, ext4 with inodes of 128 bytes whole ones. Such a
// ctime has no fraction.
func grainOf(nsec int64) time.Duration {
	if nsec == 0 {
		return 2 * time.Second
	}
	return 20 * time.Millisecond
}

// foreignChange notes that another process left the ctime.
func (v *version) foreignChange(ctime uint64) {
	gap := time.Duration(0)
	if before := v.foreign.Swap(max(ctime, 1)); before != 0 && ctime > before {
		gap = time.Duration(ctime - before)
	}
	v.quiet.Store(int64(quietAfter(gap)))
}

// made says that this process made the file.
func (v *version) made() { v.foreign.Store(0) }

// undisturbed says that no other process is known to have changed the inode lately.
func (v *version) undisturbed(fs *FS) bool {
	last := int64(v.foreign.Load())
	return last == 0 || fs.now().Sub(time.Unix(0, last)) >= time.Duration(v.quiet.Load())+grainOf(last%1e9)
}

// A change is one change of a file through the process, between its before and its after. Each
// such change passes these two, those of what has a name by the version's alone.
type change struct {
	n     *node
	ch    *vfs.Change
	alone bool   // there is no other change that the claim to be atomic would be wrong by
	moves uint64 // the version's behind the change, if it ran alone
}

// before begins a change of n, which looked like l, and tells that in ch.
func (fs *FS) before(n *node, l *look, ch *vfs.Change) change {
	n.fill(&ch.Before, l)
	ch.HasBefore = true
	c := change{n: n, ch: ch, moves: l.moves + moveSeen}
	c.alone = fs.kind.memory && l.still && n.inode.version.undisturbed(fs)
	n.inode.version.before()
	return c
}

// unchanged tells in ch that n looked like l and was left so: nothing comes between two looks that
// are one.
func (n *node) unchanged(l *look, ch *vfs.Change) {
	n.fill(&ch.Before, l)
	ch.After, ch.HasBefore, ch.HasAfter, ch.Atomic = ch.Before, true, true, true
}

// after ends the change and tells in its Change what the file looks like then, which it leaves in
// l. changed: see version.after.
func (c *change) after(changed bool, l *look) error {
	err := c.n.after(changed, l)
	if err == nil {
		c.n.fill(&c.ch.After, l)
		c.ch.HasAfter, c.ch.Atomic = true, c.alone && l.still && l.moves == c.moves
	}
	return err
}

// after ends a change of n and looks at what it left.
func (n *node) after(changed bool, l *look) error {
	v := &n.inode.version
	v.begin(l)
	err := n.fs.kind.fstat(n.fd, &l.Stat_t)
	if err != nil {
		v.after(changed, nil)
		return err
	}
	if !v.after(changed, l) {
		err = n.stat(l)
	}
	return err
}
