package local

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An inode holds the state of a file that all FSs of the process share; a node belongs to one FS.
// The table inodes has the inodes in use.
//
// A directory and a directory beneath it may both be exported, each by an FS of its own. Therefore
// mu orders changes through all FSs, and no FS reports a Change that is behind that of another.
type inode struct {
	key   inodeKey
	users int // number of nodes and calls that use it; the mu of its inodeShard protects it

	// mu orders changes of the file's data, attributes and entries. modes orders changes of its
	// mode, because openAsOwner changes the mode for a moment. Changes of the file's names lock
	// neither of them.
	mu, modes  sync.Mutex
	gone       atomic.Bool // true if the file has no name any more
	version    version
	durability durability
}

// lock locks mu. If op.Try is set and mu is locked, it returns false instead of waiting.
func (i *inode) lock(op *vfs.Op) bool {
	if op.Try {
		return i.mu.TryLock()
	}
	i.mu.Lock()
	return true
}

// lockTwo locks the mu of both inodes and returns the function that unlocks them. If both are one
// inode, it locks that once. Every call that holds the mu of two directories locks them here, because
// the fixed order prevents two calls from waiting for each other for ever.
func lockTwo(a, b *inode) (unlock func()) {
	if a == b {
		a.mu.Lock()
		return a.mu.Unlock
	}
	if a.key.compare(&b.key) > 0 {
		a, b = b, a
	}
	a.mu.Lock()
	b.mu.Lock()
	return func() {
		b.mu.Unlock()
		a.mu.Unlock()
	}
}

type inodeKey struct {
	dev    uint64
	handle vfs.Handle
}

func (k *inodeKey) compare(l *inodeKey) int {
	return cmp.Or(cmp.Compare(k.dev, l.dev), bytes.Compare(k.handle.Bytes(), l.handle.Bytes()))
}

// A version holds the state of an inode that the process saw last: its Change, and a fingerprint
// of the attributes that belong to that Change. All exports that reach the inode share it.
//
// A Change names one state. A look, which is one reading of the attributes, gets the present
// Change if the attributes are unchanged. If it shows a new state, that state gets a new Change:
// the ctime, or the former Change plus 1 if the ctime is not greater. So a Change never falls, and
// it grows whenever the ctime moves, in either direction.
//
// A change through the process calls before and after; moves counts such changes. A look during
// such a change may show half of it, because the kernel sets the ctime before the size. Such a
// look gets the former Change and makes no new one. Thus an older state is never reported with a
// newer Change. A newer state may be reported with an older Change while the change runs; after
// then gives the new state a Change of its own.
//
// Changes by other programs show only in looks. A program in the middle of a change may have set
// the ctime already but nothing else. So a look compares all attributes of a state, not its ctime
// alone.
//
// A cache stores its data with the Change that the data belong to. Before it uses the data, it
// looks at the inode and calls still(change), which reports whether the inode is in the state that
// this Change names. Data belong to a Change if the looks before and after reading the data both
// have this Change, and have still set.
//
// Locks. The methods before and still take no lock, and tell takes none if the state is unchanged.
// The calls that make a new Change lock mu. It is never held during a system call.
type version struct {
	// moves has two counters. Its low half is the number of running changes through the process.
	// Its high half is the number of changes begun and of new states found by looks.
	moves atomic.Uint64
	// change is the highest Change so far. seen is the fingerprint of the attributes that belong
	// to it. seen is 0 if the attributes have not been read since this Change was made.
	change, seen atomic.Uint64
	// foreign is the latest ctime (a stamp) that another process is known to have set, or 0. quiet is a
	// duration in nanoseconds: for so long after foreign, the field Atomic (vfs) is false (see
	// quietAfter).
	foreign atomic.Uint64
	quiet   atomic.Int64

	mu    sync.Mutex
	ctime uint64 // ctime of the state that seen identifies, as a stamp
}

const (
	moveBegins = 1<<32 + 1
	moveSeen   = 1 << 32
	movesNow   = 1<<32 - 1
)

// A look is one reading of an inode's attributes, with the Change of the state that was read.
type look struct {
	unix.Stat_t
	change uint64 // identifies this state or an older one
	still  bool   // change identifies this state: no change through the process ran during the look
	moves  uint64 // the version's moves when the look began
}

// fingerprint returns a hash of the attributes that identify a state. It leaves out the atime,
// because reads change it, and the number of blocks, because the file system may change it later.
func fingerprint(st *unix.Stat_t) uint64 {
	h := uint64(0)
	for _, w := range [...]uint64{uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec), uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec),
		uint64(st.Size), uint64(st.Mode) | uint64(st.Nlink)<<32, uint64(st.Uid) | uint64(st.Gid)<<32} {
		h = bits.RotateLeft64((h^w)*0x9e3779b97f4a7c15, 29)
	}
	return max(h, 1)
}

// init sets v for an inode that is new in the inode table. st holds the inode's attributes.
func (v *version) init(st *unix.Stat_t) {
	v.ctime = stamp(st)
	v.seen.Store(fingerprint(st))
	v.foreign.Store(max(v.ctime, 1))
	v.quiet.Store(int64(leastQuiet))
	v.change.Store(v.ctime)
}

// beginLook stores the counters in l. Then the caller reads the attributes to l and calls version.tell.
func (v *version) beginLook(l *look) {
	l.moves, l.change = v.moves.Load(), v.change.Load()
}

// tell is called after the caller has read the attributes to l. It sets l.still. If the attributes
// are those of a new state, tell also makes a new Change for that state and stores it in l.
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
	v.moves.Add(moveSeen) // this makes tell unset still in the looks that run now
	l.moves += moveSeen
	v.setLocked(l, f)
}

// setLocked gives the state in l a new Change. The caller holds mu.
func (v *version) setLocked(l *look, f uint64) {
	v.ctime = stamp(&l.Stat_t)
	l.change = max(v.ctime, v.change.Load()+1)
	v.change.Store(l.change)
	v.seen.Store(f)
}

// before is called when this process is about to change the inode. Attributes that are read between
// the calls of before and after belong to no known state.
func (v *version) before() { v.moves.Add(moveBegins) }

// after is called when the change is over. changed is true if the change was made, or may have
// been. l holds attributes that were read after the change, or is nil. If no other change ran
// meanwhile, after stores the Change of the new state in l, and alone is true.
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

// still reports whether the argument is the inode's Change as this process last read it, and this
// process is not changing the inode now.
func (v *version) still(change uint64) bool {
	return v.moves.Load()&movesNow == 0 && v.change.Load() == change
}

// ahead returns how far the Change is ahead of the ctime. needed: the ctime alone would let it fall.
func (v *version) ahead() (by uint64, needed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen.Load() == 0 {
		return 0, true
	}
	by = v.change.Load() - v.ctime
	return by, by > 0
}

// vfs.Change.Atomic means that no other change of the object came between the readings of its
// attributes before and after the change. If this process made another change in between,
// version.moves shows that.
//
// A change by another process between the two readings, some microseconds apart, cannot be seen.
// But the first reading shows whether another process changed the object lately. Then it may do so
// again, and Atomic is false for the time quietAfter. If Atomic is false, a client drops its cache of
// a directory. Linux then sends an ACCESS for each user and a LOOKUP for each name.

// leastQuiet and mostQuiet limit the result of quietAfter.
const (
	leastQuiet = time.Second
	mostQuiet  = 10 * time.Second
)

// quietAfter returns how long Atomic is false after a change by another process: twice the time
// since the other process's change before that (gap), within the limits. After a single change it is
// leastQuiet.
func quietAfter(gap time.Duration) time.Duration {
	if gap >= mostQuiet {
		return leastQuiet
	}
	return min(max(2*gap, leastQuiet), mostQuiet)
}

// grainOf returns an upper bound of the time within which two changes of a file can leave the same
// ctime. nsec is the nanoseconds of that ctime. Kernels take the ctime from a clock that ticks at
// least every 10 ms. Some file systems round it: FAT to even seconds, ext4 with inodes of 128
// bytes to whole seconds; such a ctime has nsec 0.
func grainOf(nsec int64) time.Duration {
	if nsec == 0 {
		return 2 * time.Second
	}
	return 20 * time.Millisecond
}

// foreignChange records that another process changed the inode, which set this ctime. It also
// computes quiet from the time since the last such change.
func (v *version) foreignChange(ctime uint64) {
	gap := time.Duration(0)
	if before := v.foreign.Swap(max(ctime, 1)); before != 0 && ctime > before {
		gap = time.Duration(ctime - before)
	}
	v.quiet.Store(int64(quietAfter(gap)))
}

// made records that this process made the file, so that its ctime does not count as foreign.
func (v *version) made() { v.foreign.Store(0) }

// undisturbed reports whether no other process is known to have changed the inode lately.
func (v *version) undisturbed(clock nodeHost) bool {
	last := int64(v.foreign.Load())
	return last == 0 || clock.now().Sub(time.Unix(0, last)) >= time.Duration(v.quiet.Load())+grainOf(last%1e9)
}

// A change is one change of a file by this process that is reported in a vfs.Change. It begins with
// node.before and ends with change.after. A change that is not reported, for example of the link count
// when a name is removed, calls only version.before and version.after.
type change struct {
	n     *node
	ch    *vfs.Change
	alone bool   // true if no other change is known that would make Atomic wrong
	moves uint64 // the version's moves after the change, if it ran alone
}

// before begins a change of n and stores l, the attributes of n just read, in ch.Before.
func (n *node) before(l *look, ch *vfs.Change) change {
	n.fill(&ch.Before, l)
	ch.HasBefore = true
	c := change{n: n, ch: ch, moves: l.moves + moveSeen}
	c.alone = n.cache.memory && l.still && n.inode.version.undisturbed(n.cache.host)
	n.inode.version.before()
	return c
}

// unchanged stores l in ch as the attributes before and after: one reading, so Atomic is true.
func (n *node) unchanged(l *look, ch *vfs.Change) {
	n.fill(&ch.Before, l)
	ch.After, ch.HasBefore, ch.HasAfter, ch.Atomic = ch.Before, true, true, true
}

// after ends the change. It reads the file's attributes to l and to ch.After. For the argument
// changed, see version.after.
func (c *change) after(changed bool, l *look) error {
	err := c.n.after(changed, l)
	if err == nil {
		c.n.fill(&c.ch.After, l)
		c.ch.HasAfter, c.ch.Atomic = true, c.alone && l.still && l.moves == c.moves
	}
	return err
}

// after ends a change of n and reads n's attributes to l.
func (n *node) after(changed bool, l *look) error {
	v := &n.inode.version
	v.beginLook(l)
	err := n.fstat(l)
	if err != nil {
		v.after(changed, nil)
		return err
	}
	if !v.after(changed, l) {
		err = n.stat(l)
	}
	return err
}

var types = [16]vfs.Type{
	unix.S_IFREG >> 12: vfs.Regular, unix.S_IFDIR >> 12: vfs.Directory, unix.S_IFLNK >> 12: vfs.Symlink, unix.S_IFSOCK >> 12: vfs.Socket,
	unix.S_IFBLK >> 12: vfs.BlockDevice, unix.S_IFCHR >> 12: vfs.CharDevice, unix.S_IFIFO >> 12: vfs.FIFO,
}

func typeOf(mode uint32) vfs.Type { return cmp.Or(types[mode&unix.S_IFMT>>12], vfs.Regular) }

func timeOf(t unix.Timespec) vfs.Time { return vfs.Time{Sec: t.Sec, Nsec: uint32(t.Nsec)} }

// stamp returns the ctime as a Change value: nanoseconds since 1970, or 0 if the ctime is before
// 1970.
func stamp(st *unix.Stat_t) uint64 {
	if st.Ctim.Sec < 0 {
		return 0
	}
	return uint64(st.Ctim.Sec)*1e9 + uint64(st.Ctim.Nsec)
}

func fill(a *vfs.Attr, fsid, fileID uint64, st *look) {
	a.Type = typeOf(st.Mode)
	a.Mode = st.Mode & 0o7777
	a.Nlink = uint32(st.Nlink)
	a.UID, a.GID = st.Uid, st.Gid
	a.Size = uint64(st.Size)
	a.Used = uint64(st.Blocks) * 512
	a.Major, a.Minor = 0, 0
	if a.Type == vfs.BlockDevice || a.Type == vfs.CharDevice {
		a.Major, a.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	}
	a.FSID, a.FileID, a.Change = fsid, fileID, st.change
	a.Birth, a.HasBirth, a.MountedOn = vfs.Time{}, false, 0
	a.Atime, a.Mtime, a.Ctime = timeOf(st.Atim), timeOf(st.Mtim), timeOf(st.Ctim)
}

// fill copies the attributes in l to a, with n's identity and l's Change.
func (n *node) fill(a *vfs.Attr, l *look) { fill(a, n.fsid, n.fileID, l) }

const inodeShards = 64

// maxKept is the largest number of inodes without users in the table. A shard that has more than its
// equal part drops the inode whose Change is least ahead of its ctime.
const maxKept = 1 << 15

// inodeTable holds the inodes in use by nodes and calls. Because a Change must never go back, it also
// keeps inodes without users whose Change is, or may be, ahead of the ctime. The process has one
// table: inodes.
type inodeTable struct {
	seed   maphash.Seed
	most   int // largest number of inodes in a shard's kept
	shards [inodeShards]inodeShard
}

type inodeShard struct {
	mu    sync.Mutex
	m     map[inodeKey]*inode // inodes with users
	kept  map[inodeKey]*inode // inodes without users
	taken atomic.Uint64       // number of inodes put into m so far
}

var inodes = newInodeTable(maxKept)

func newInodeTable(maxKept int) *inodeTable {
	t := &inodeTable{seed: maphash.MakeSeed(), most: maxKept / inodeShards}
	for i := range t.shards {
		t.shards[i].m = make(map[inodeKey]*inode)
		t.shards[i].kept = make(map[inodeKey]*inode)
	}
	return t
}

func (t *inodeTable) shard(h *vfs.Handle) *inodeShard {
	return &t.shards[maphash.Bytes(t.seed, h.Bytes())%inodeShards]
}

// acquire returns the inode with key k on device d and counts one more user. If the inode is new, st
// are its attributes.
func (t *inodeTable) acquire(k inodeKey, st *unix.Stat_t, d *device) *inode {
	s := t.shard(&k.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i == nil {
		if i = s.kept[k]; i == nil {
			i = &inode{key: k}
			i.version.init(st)
		}
		delete(s.kept, k)
		i.durability.confirmed = d.failures.Load() // failed syncs until now came before any later change of i
		s.m[k] = i
		s.taken.Add(1)
	}
	i.users++
	return i
}

// find returns the inode with key k and counts one more user. It returns nil if no node or call uses
// the inode.
func (t *inodeTable) find(k inodeKey) *inode {
	s := t.shard(&k.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i != nil {
		i.users++
	}
	return i
}

// giveBack counts one user less. If i has no user left, giveBack keeps it if that is needed, and
// otherwise removes it from the table.
func (t *inodeTable) giveBack(i *inode) {
	s := t.shard(&i.key.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.users--; i.users > 0 {
		return
	}
	delete(s.m, i.key)
	least, needed := i.version.ahead()
	if !needed || i.gone.Load() {
		return
	}
	s.kept[i.key] = i
	if len(s.kept) > t.most {
		for _, other := range s.kept {
			if ahead, _ := other.version.ahead(); ahead < least {
				i, least = other, ahead
			}
		}
		delete(s.kept, i.key)
	}
}

// A sighting is made before the attributes of a file without a node are read by its name. After the
// reading, ctimeSays reports whether the ctime is also the inode's Change.
type sighting struct {
	shard *inodeShard
	taken uint64 // number of inodes that the shard had taken
}

func (t *inodeTable) sight(h *vfs.Handle) sighting {
	s := t.shard(h)
	return sighting{s, s.taken.Load()}
}

// ctimeSays reports whether the ctime just read is the Change of the inode with key k. That is so
// if the table does not have the inode, and the shard took none since the sighting: a change through
// a node could have raised the inode's Change above the ctime.
func (g *sighting) ctimeSays(k inodeKey) bool {
	g.shard.mu.Lock()
	defer g.shard.mu.Unlock()
	return g.shard.m[k] == nil && g.shard.kept[k] == nil && g.shard.taken.Load() == g.taken
}
