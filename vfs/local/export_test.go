package local

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// SetClock replaces the clock by which the FS finds the age of a ctime.
func (fs *FS) SetClock(now func() time.Time) { fs.clock = now }

// Sweep runs n rounds of the sweeper at once. Normally a round takes place every second.
func (fs *FS) Sweep(n int) {
	for range n {
		fs.sweepOnce()
		fs.syncer.flush()
	}
}

// PassTime makes all nodes count as unused for so long that the sweeper would drop them. It does
// not run the sweeper.
func (fs *FS) PassTime() { fs.nodes.round.Add(forgetAfter + 1) }

// Lose removes h's file from the cache, even if its data is unsynced.
func (fs *FS) Lose(h vfs.Handle) {
	n := fs.nodes.cached(&h)
	n.put()
	s := fs.nodes.shard(&h)
	s.mu.Lock()
	fs.nodes.takeLocked(s, n)
	s.mu.Unlock()
	n.put()
}

// HoldSweeps holds the sweeper up until the returned function is called or the test ends.
func (fs *FS) HoldSweeps(t *testing.T) (release func()) {
	fs.sweeping.Lock()
	release = sync.OnceFunc(fs.sweeping.Unlock)
	t.Cleanup(release)
	return release
}

// EvictAll removes all idle nodes from the cache.
func (fs *FS) EvictAll() { fs.nodes.shrink(1<<20, 0) }

// SearchPatience sets how long calls wait for a search of the index.
func (fs *FS) SearchPatience(d time.Duration) {
	if x, ok := fs.resolver.(*index.Index); ok {
		x.Patience = d
	}
}

// SearchAgain lets the index search at once for every file, even one that it searched for a moment
// ago.
func (fs *FS) SearchAgain() { fs.resolver.(*index.Index).SearchAgain() }

// DupClaims returns a copy of the descriptor with the claims on h. A process that is being started
// has such a copy.
func (fs *FS) DupClaims(h vfs.Handle) (fd int, err error) {
	n := fs.nodes.cached(&h)
	defer n.put()
	return unix.Dup(n.claims.file.fd)
}

// Cached reports whether h's file has a node in the cache.
func (fs *FS) Cached(h vfs.Handle) bool {
	n := fs.nodes.cached(&h)
	if n == nil {
		return false
	}
	n.put()
	return true
}

// LastUser makes the test the last user of h's descriptor for reading. It returns the function
// that releases the descriptor.
func (fs *FS) LastUser(h vfs.Handle) func(op *vfs.Op) {
	n := fs.nodes.cached(&h)
	f := n.held(false)
	n.closeAll()
	fs.nodes.forget(n)
	n.put()
	return func(op *vfs.Op) { fs.giveBackFile(op, f) }
}

// Scheme returns the name of the resolver of handles: "kernel" or "index".
func (fs *FS) Scheme() string {
	if _, ok := fs.resolver.(*index.Index); ok {
		return "index"
	}
	return "kernel"
}

// Stats is a snapshot of an FS's counters.
type Stats struct {
	// Nodes counts the descriptors open with O_PATH, OpenFiles those open for data, and Listings
	// those open to list a directory. Unsynced counts the files that have data which is not on
	// stable storage. Pinned counts those of OpenFiles that vfs.Files or claims keep open.
	Nodes, OpenFiles, Listings, Unsynced, Pinned int64
	// Switches counts the attempts to switch a thread to a caller's identity, SwitchFailures the
	// failed attempts. ThreadsRetired counts the threads that ended because they could not be
	// switched back.
	Switches, SwitchFailures, ThreadsRetired uint64
	// Verdicts counts the checks of a caller's rights that the kernel made, VerdictsRemembered the
	// checks that were answered from memory.
	Verdicts, VerdictsRemembered uint64
	// Syncs counts sync calls, SyncFailures the failed ones.
	Syncs, SyncFailures uint64
	// Searches counts walks of the whole tree by the index.
	Searches uint64
	// Climbs counts how often the FS went up from a directory, level by level, to check that it lies
	// below the root.
	Climbs uint64
	// Forgotten counts names that the index dropped, because too many waited to be written.
	Forgotten uint64
}

// Stats reads the counters.
func (fs *FS) Stats() Stats {
	c, h := &fs.stats, &fs.holdings
	var searches, forgotten uint64
	if x, ok := fs.resolver.(*index.Index); ok {
		searches, forgotten = x.Stats()
	}
	return Stats{
		Nodes: fs.nodes.count.Load(), OpenFiles: h.data.Load(), Listings: h.listings.Load(), Unsynced: fs.syncer.unsynced.count.Load(),
		Pinned:   h.pinned(),
		Switches: fs.identity.switches.Load(), SwitchFailures: fs.identity.failures.Load(), ThreadsRetired: fs.identity.retired.Load(),
		Verdicts: c.verdicts.Load(), VerdictsRemembered: c.verdictsRemembered.Load(),
		Syncs: fs.syncs.calls.Load(), SyncFailures: fs.syncs.failures.Load(),
		Searches: searches, Climbs: c.climbs.Load(), Forgotten: forgotten,
	}
}

// RememberedNames returns the number of remembered names.
func (fs *FS) RememberedNames() (names int64) {
	fs.nodes.each(func(n *node) {
		m := &n.memory
		m.mu.Lock()
		names += int64(len(m.names) + len(m.list.entries))
		m.mu.Unlock()
	})
	return names
}

// WholeReads returns how often a directory was read as a whole to list it in the order of its names.
func (fs *FS) WholeReads() uint64 { return fs.stats.wholeReads.Load() }

// TakeNames takes memory for names away from the FS, or returns false.
func (fs *FS) TakeNames(bytes int64) bool { return fs.takeNames(bytes) }

// MaxNameMemory is the limit of the memory that names take in all FSs together.
const MaxNameMemory = maxNameMemory

// NameMemory returns the number of bytes that names take in the FS.
func (fs *FS) NameMemory() int64 { return fs.stats.nameBytes.Load() }

// HandleOf returns the handle of name in the directory dir.
func HandleOf(dir int, name string) (h vfs.Handle, err error) {
	fd, err := sysOpenat2(dir, []byte(name), unix.O_PATH, 0, 0)
	if err != nil {
		return h, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		return h, err
	}
	return handleKinds[0].identify(fd, &st)
}

// UUIDOfDevice returns the UUID of the block device dev, by a link in the directory dir.
func UUIDOfDevice(dir string, dev uint64) string { return uuidOfDevice(dir, dev) }

// Apart gives the FS a device of its own, as if mountinfo did not list its mount.
func (fs *FS) Apart() {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	delete(fs.syncer.device.shown, &fs.syncer)
	fs.syncer.device = &device{shown: map[*syncer]*FS{&fs.syncer: fs}}
}

// Bounded reports whether the mount has nothing outside of the tree.
func (fs *FS) Bounded() bool { return fs.bounded }

// Syncing reports whether at least n callers wait for a running sync call of h.
func (fs *FS) Syncing(h vfs.Handle, n int) bool {
	node := fs.nodes.cached(&h)
	defer node.put()
	d := &node.inode.durability
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting >= n
}

// Told returns the Change that h gets if its attributes are st. If changed is set, these are the
// attributes after a change through the FS.
func (fs *FS) Told(h vfs.Handle, st *unix.Stat_t, changed bool) uint64 {
	n, err := fs.node(&daemonOp, h)
	if err != nil {
		return 0
	}
	defer n.put()
	v := &n.inode.version
	is := look{Stat_t: *st}
	if changed {
		v.before()
	}
	v.beginLook(&is)
	if changed {
		v.after(true, &is)
	} else {
		v.tell(&is)
	}
	return is.change
}

// SetUnnamed sets whether the file system has unnamed files (O_TMPFILE).
func (fs *FS) SetUnnamed(has bool) { fs.noUnnamed.Store(!has) }

// MostUnsynced returns the number of files with unsynced data from which on writers sync.
func (fs *FS) MostUnsynced() int { return int(fs.holdings.mostUnsynced()) }

// Later sets the clock forward.
func (fs *FS) Later(by time.Duration) {
	fs.SetClock(func() time.Time { return time.Now().Add(by) })
}

// Stir begins a change of h without the inode's lock. The returned function ends the change.
func (fs *FS) Stir(h vfs.Handle) (end func()) {
	n, err := fs.node(&daemonOp, h)
	if err != nil {
		return func() {}
	}
	n.inode.version.before()
	return func() {
		n.inode.version.after(true, nil)
		n.put()
	}
}

// StillAttr returns the attributes of h, read while no change through the process ran.
func (fs *FS) StillAttr(h vfs.Handle) (a vfs.Attr) {
	n, err := fs.node(&daemonOp, h)
	if err != nil {
		return a
	}
	defer n.put()
	for is := (look{}); !is.still; n.fill(&a, &is) {
		if n.stat(&is) != nil {
			return vfs.Attr{}
		}
	}
	return a
}

// Alone makes a change of h by calling do, and returns that change's Atomic.
func (fs *FS) Alone(h vfs.Handle, do func() error) (bool, error) {
	n, err := fs.node(&daemonOp, h)
	if err != nil {
		return false, err
	}
	defer n.put()
	var is look
	if err = n.stat(&is); err != nil {
		return false, err
	}
	var ch vfs.Change
	c := n.before(&is, &ch)
	doErr := do()
	_ = c.after(true, &is)
	return ch.Atomic, doErr
}

// OnNote makes the FS call f after each name that it reports to the resolver with Note.
func (fs *FS) OnNote(f func()) { fs.resolver = noting{fs.resolver, f} }

type noting struct {
	resolver
	f func()
}

func (n noting) Note(dir, h vfs.Handle, name []byte) {
	n.resolver.Note(dir, h, name)
	n.f()
}

// IndexIsFull makes the resolver report that it has no room. A call of Room that may wait sends a
// value on waits, and then gets room.
func (fs *FS) IndexIsFull(waits chan<- struct{}) { fs.resolver = full{fs.resolver, waits} }

type full struct {
	resolver
	waits chan<- struct{}
}

func (f full) Room(try bool) bool {
	if !try {
		f.waits <- struct{}{}
	}
	return !try
}

// KeepAhead puts inodes into a table and gives them back. All are in one shard, which can keep one
// fewer. ahead says how far each Change is ahead of its ctime. KeepAhead returns the number of inodes
// kept. It returns -1 if the one whose Change is least ahead was kept, or another one was dropped.
func KeepAhead(ahead []uint64) (kept int) {
	t := newInodeTable(inodeShards * (len(ahead) - 1))
	least := ahead[0]
	for i, by := range ahead {
		h := noFile(0)
		in := t.acquire(inodeKey{uint64(i), h}, &unix.Stat_t{}, new(device))
		in.version.change.Add(by)
		t.giveBack(in)
		least = min(least, by)
	}
	for i, by := range ahead {
		h := noFile(0)
		_, ok := t.shard(&h).kept[inodeKey{uint64(i), h}]
		if ok == (by == least) {
			return -1
		}
		if ok {
			kept++
		}
	}
	return kept
}

// UseKept makes a table keep an inode, and then uses it once more, until its Change is the ctime and the
// table drops it. fooled is true if a sighting that began before takes an older ctime for the Change.
// confirmed is the number of failed syncs that count as verified in that use; the device has 2.
func UseKept() (fooled bool, confirmed uint64) {
	t, d, h := newInodeTable(inodeShards), new(device), noFile(0)
	d.failures.Store(5)
	in := t.acquire(inodeKey{0, h}, &unix.Stat_t{}, d)
	in.version.change.Add(1)
	t.giveBack(in)
	g := t.sight(&h)
	d.failures.Store(2)
	in = t.acquire(in.key, &unix.Stat_t{}, d)
	in.version.ctime = in.version.change.Load()
	t.giveBack(in)
	return g.ctimeSays(in.key), in.durability.confirmed
}

// RemembersEmpty reports whether the FS remembers a whole, empty listing of a directory of which it
// remembers names with the same Change. For settled, see listing.
func RemembersEmpty(settled bool) bool {
	d := &node{inode: new(inode), memory: dirMemory{change: 1}}
	d.inode.version.change.Store(1)
	d.memory.ended(&listing{dir: d, settled: settled, looks: look{change: 1}}, dotDotCookie, true)
	_, whole, _ := d.listFrom(dotDotCookie)
	return whole
}

// Watched is an inode that has a version, but no file.
type Watched struct {
	i  inode
	fs FS
}

func NewWatched() *Watched { return &Watched{} }

// Undisturbed reports what version.undisturbed returns at the time now for an inode with this
// ctime.
func (w *Watched) Undisturbed(ctime, now time.Time) bool {
	w.fs.SetClock(func() time.Time { return now })
	is := look{Stat_t: unix.Stat_t{Ctim: unix.NsecToTimespec(ctime.UnixNano())}}
	if v := &w.i.version; v.change.Load() == 0 {
		v.init(&is.Stat_t)
	} else {
		v.beginLook(&is)
		v.tell(&is)
	}
	return w.i.version.undisturbed(host{&w.fs})
}

// noFile returns the handle of the ith of many files that do not exist.
func noFile(i int) vfs.Handle {
	h, _ := vfs.MakeHandle(binary.BigEndian.AppendUint64([]byte{inodeHandle}, uint64(i)))
	return h
}

// HandleKind is a kind of file systems, as the documentation has it.
type HandleKind struct {
	Name                   string
	Lasts, Checked, Layers bool
}

func (k *handleKind) told() HandleKind { return HandleKind{k.name, k.lasts, k.checked, k.layers} }

// HandleKinds returns all kinds.
func HandleKinds() (all []HandleKind) {
	for i := range handleKinds {
		all = append(all, handleKinds[i].told())
	}
	return all
}

// HandleKindOf returns the kind of the file system that dir is on.
func HandleKindOf(t *testing.T, dir string) HandleKind {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return handleKindOf(s.Type).told()
}

// MountIdentity returns what identifies the mount of dir while it lasts.
func MountIdentity(t *testing.T, dir string) string {
	t.Helper()
	fd, s, st := openDir(t, dir)
	defer unix.Close(fd)
	return string(mountIdentity(fd, s.Type, st.Dev))
}

// NumberedMount is what identifies the mount of dir on older kernels.
func NumberedMount(t *testing.T, dir string) string {
	t.Helper()
	fd, _, _ := openDir(t, dir)
	defer unix.Close(fd)
	return numberedMount(fd)
}

// FUSEConnection is mountIdentity of a FUSE file system at dir by the connections in another directory.
func FUSEConnection(t *testing.T, connections, dir string) string {
	t.Helper()
	fd, _, st := openDir(t, dir)
	defer unix.Close(fd)
	return fuseConnection(connections, st.Dev)
}

// UUIDOfXFS returns the UUID of the XFS at dir.
func UUIDOfXFS(t *testing.T, dir string) string {
	t.Helper()
	fd, _, _ := openDir(t, dir)
	defer unix.Close(fd)
	return uuidOfXFS(fd)
}

// UUIDOf returns the UUID of the file system at dir.
func UUIDOf(t *testing.T, dir string) string {
	t.Helper()
	fd, _, st := openDir(t, dir)
	defer unix.Close(fd)
	return uuidOf(fd, st.Dev)
}

func openDir(t *testing.T, dir string) (fd int, s unix.Statfs_t, st unix.Stat_t) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Fstatfs(fd, &s), unix.Fstat(fd, &st))
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd, s, st
}

// CloseForRoom closes all descriptors for data and listings that the FS can open again.
func (fs *FS) CloseForRoom() { fs.closeSome(1 << 20) }

// StopSweeper makes the sweeper wait until the function that it returns is called.
func (fs *FS) StopSweeper() (goOn func()) {
	fs.sweeping.Lock()
	return fs.sweeping.Unlock
}

// OpenToWrite reports whether the FS has h open for writing.
func (fs *FS) OpenToWrite(h vfs.Handle) bool {
	n := fs.nodes.cached(&h)
	defer n.put()
	n.files.mu.Lock()
	defer n.files.mu.Unlock()
	return n.files.rw != nil
}
