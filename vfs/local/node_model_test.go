package local

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The model drives two caches of nodes, as of two exports of one tree, with their inodes and their syncers.
// It has its own clock, its own files and its own disk, which can lose data. It knows what is true, and
// compares that with what the code says after each step.

// tick is the granularity of the model's ctimes. Changes within one tick have the same ctime.
const tick = 4 * time.Millisecond

type modelFile struct {
	h  vfs.Handle
	st unix.Stat_t
	// pending holds the numbers of the writes that are in memory, stable of those that are on the disk. A
	// write in neither was lost. errs counts the losses.
	pending, stable map[int]bool
	errs            int

	content int
	states  map[uint64]modelState // the state that each Change names
	last    uint64                // the latest Change
	looked  bool
	changed bool      // changed through the process since the last look
	foreign bool      // changed by another program since the last look
	seen    time.Time // ctime of the last change by another program that a look showed
	met     time.Time // ctime when the table had no inode of the file and took one
}

// A modelState is what a client sees of a file. Within a tick, attributes may be the same for two contents.
type modelState struct {
	unix.Stat_t
	content int
}

type ack struct {
	write    int
	verifier uint64
}

// A share is an FS of the model.
type share struct {
	m        *model
	cache    nodeCache
	syncer   syncer
	writable map[*node]int // errs of the file when n's writable descriptor last told of a failure, or was opened
	pinned   int
	held     []*node // a reference each
	files    []*node // a File and a reference each
	acked    map[*modelFile][]ack
	swept    uint32
}

type model struct {
	t      *testing.T
	r      *rand.Rand
	clock  time.Time
	files  []*modelFile
	fds    map[int]*modelFile // open descriptors
	closed map[int]bool
	made   int
	writes int
	shares []*share
	inodes *inodeTable
	fails  bool   // the next sync call loses its data
	during func() // runs during the next sync call
	broken bool   // fstat fails
	step   string
	seed   uint64
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d, %s: %s", m.seed, m.step, fmt.Sprintf(format, args...))
}

// touch makes a new state of the file.
func (m *model) touch(f *modelFile) {
	f.content++
	f.st.Size += int64(m.r.IntN(2))
	f.st.Ctim = unix.NsecToTimespec(m.clock.Truncate(tick).UnixNano())
}

func (m *model) newFile() *modelFile {
	m.made++
	f := &modelFile{h: noFile(m.made), pending: map[int]bool{}, stable: map[int]bool{}, states: map[uint64]modelState{}}
	f.st = unix.Stat_t{Dev: 1, Ino: uint64(m.made), Nlink: 1, Mode: unix.S_IFREG | 0o644}
	m.touch(f)
	return f
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 31)), clock: time.Unix(1e9, 0), inodes: newInodeTable(1 << 16),
		fds: map[int]*modelFile{}, closed: map[int]bool{}, step: "start"}
	d := &device{shown: map[*syncer]*FS{}}
	for range 9 {
		m.files = append(m.files, m.newFile())
	}
	for range 2 {
		s := &share{m: m, writable: map[*node]int{}, acked: map[*modelFile][]ack{}}
		s.syncer.init(s, true, make(chan struct{}))
		s.cache.init(s, m.inodes, &s.syncer)
		s.cache.memory = true
		s.syncer.start(d, false)
		d.shown[&s.syncer] = nil
		m.shares = append(m.shares, s)
		s.cache.root = s.adopt(m.files[0])
		s.look(s.cache.root)
	}
	return m
}

func (s *share) adopt(f *modelFile) *node {
	key, shard := inodeKey{f.st.Dev, f.h}, s.m.inodes.shard(&f.h)
	if shard.m[key] == nil && shard.kept[key] == nil {
		f.met = time.Unix(f.st.Ctim.Unix())
	}
	fd := len(s.m.fds) + len(s.m.closed) + 1
	s.m.fds[fd] = f
	return s.cache.adopt(fd, &f.st, f.h, origin{})
}

// find returns f's node with a reference. At times it opens the file anew although the cache has a node, as
// two calls for one name do.
func (s *share) find(f *modelFile) *node {
	was := s.cache.cached(&f.h)
	if was != nil {
		if s.m.r.IntN(4) > 0 {
			return was
		}
		defer was.put()
	}
	n := s.adopt(f)
	if was != nil && n != was || s.cache.cached(&f.h) != n {
		s.m.errorf("the cache has another node of %v", f.h)
	}
	n.put()
	return n
}

// in reports whether a node of f is in a cache.
func (m *model) in(f *modelFile) bool {
	for _, s := range m.shares {
		if n := s.cache.cached(&f.h); n != nil {
			n.put()
			return true
		}
	}
	return false
}

// look reads n's attributes through the code, and compares the Change with those of before.
func (s *share) look(n *node) {
	m, f := s.m, s.m.fds[n.fd]
	var l look
	if err := n.stat(&l); err != nil || !l.still {
		m.errorf("a look while nothing changes: still %v, %v", l.still, err)
	}
	m.tell(f, &l)
	if f.st.Nlink == 0 {
		s.cache.forget(n)
	}
}

func (m *model) tell(f *modelFile, l *look) {
	m.t.Helper()
	is := modelState{l.Stat_t, f.content}
	was, known := f.states[l.change]
	switch {
	case known && was != is:
		m.errorf("Change %d names two states", l.change)
	case f.looked && l.change < f.last:
		m.errorf("the Change fell from %d to %d", f.last, l.change)
	case f.looked && f.states[f.last] == is && !f.changed && l.change != f.last:
		m.errorf("the Change went from %d to %d, but nothing has changed", f.last, l.change)
	}
	if f.looked && f.foreign && !f.changed { // a look cannot tell it from a change through the process
		f.seen = time.Unix(l.Ctim.Unix())
	}
	f.states[l.change], f.last, f.looked, f.changed, f.foreign = is, l.change, true, false, false
}

// othersChange makes the file change through another program. If the change comes in the tick of the last
// one, only a look before the inode is forgotten tells the two states apart. Then looked is called.
func (m *model) othersChange(f *modelFile, looked func()) {
	soon := m.in(f) && m.r.IntN(2) == 0
	if !soon {
		m.clock = m.clock.Add(tick)
	}
	m.touch(f)
	f.st.Size++ // otherwise no look could show a change in the tick of another
	if f.foreign = true; soon {
		looked()
	}
}

// ownChange is a change through the process that reads no attributes, as that of the link count is.
func (m *model) ownChange(f *modelFile, n *node) {
	n.inode.version.before()
	m.touch(f)
	n.inode.version.after(true, nil)
	f.changed, f.foreign = true, false
}

// write writes to n. Other changes and looks may come in the middle of it.
func (s *share) write(n *node) {
	m, f := s.m, s.m.fds[n.fd]
	var is look
	var ch vfs.Change
	n.inode.mu.Lock()
	defer n.inode.mu.Unlock()
	if err := n.stat(&is); err != nil {
		m.errorf("%v", err)
	}
	m.tell(f, &is)
	seen, others, own := f.seen, false, false
	began := m.clock
	c := n.before(&is, &ch)
	m.writes++
	m.touch(f)
	if _, open := s.writable[n]; !open {
		s.writable[n] = f.errs
	}
	f.pending[m.writes] = true
	n.wrote()
	s.acked[f] = append(s.acked[f], ack{m.writes, s.syncer.verifier.Load()})
	switch m.r.IntN(6) {
	case 0:
		m.ownChange(f, n)
		own = true
	case 1:
		m.othersChange(f, func() {}) // the write looks at its end
		others = true
	case 2:
		var l look
		if err := n.stat(&l); err != nil || l.still || l.change != ch.Before.Change {
			m.errorf("a look in the middle of a change: %v, still %v, Change %d instead of %d", err, l.still, l.change, ch.Before.Change)
		}
	case 3:
		m.broken = true
	}
	err := c.after(true, &is)
	f.changed, f.foreign = true, false
	if m.broken {
		if m.broken = false; err == nil || ch.HasAfter || ch.Atomic {
			m.errorf("attributes that were not read: %v, %+v", err, ch)
		}
		return
	}
	quiet := min(began.Sub(seen), began.Sub(f.met))
	switch {
	case err != nil || !ch.HasAfter || ch.After.Change <= ch.Before.Change:
		m.errorf("after a write: %v, %+v", err, ch)
	case ch.Atomic && own:
		m.errorf("atomic beside another change of the process")
	case ch.Atomic && !seen.IsZero() && began.Sub(seen) < leastQuiet:
		m.errorf("atomic %v after a change by another program", began.Sub(seen))
	case !ch.Atomic && !own && !others && quiet >= mostQuiet+2*time.Second:
		m.errorf("not atomic, although no other program has changed the file for %v", quiet)
	}
	m.tell(f, &is)
}

// commit syncs n as a client's COMMIT does. If it succeeds, then each write that was acknowledged with the
// verifier of now is on the disk. The client sends all others again.
func (s *share) commit(n *node) {
	m, f := s.m, s.m.fds[n.fd]
	before := len(s.acked[f])
	err := n.mark().sync()
	if err == nil {
		s.mustBeStable(f, s.acked[f][:before])
		s.acked[f] = s.acked[f][before:]
		return
	}
	for _, a := range s.acked[f] {
		if !f.stable[a.write] && !f.pending[a.write] && a.verifier == s.syncer.verifier.Load() {
			m.errorf("write %d is lost and the verifier is the same", a.write)
		}
	}
	s.acked[f] = nil
}

func (s *share) mustBeStable(f *modelFile, acked []ack) {
	for _, a := range acked {
		if !f.stable[a.write] && f.st.Nlink > 0 && a.verifier == s.syncer.verifier.Load() {
			s.m.errorf("write %d of %v is not on the disk after a sync without an error and with the same verifier", a.write, f.h)
		}
	}
}

// sweep runs rounds of the sweeper, as FS.sweepOnce does.
func (s *share) sweep(rounds int) {
	for range rounds {
		s.m.clock = s.m.clock.Add(time.Second)
		round := s.cache.round.Add(1)
		s.cache.sweep(s.swept, round, func(n *node) uint32 {
			if s.m.fds[n.fd].st.Nlink == 0 && s.cache.forget(n) {
				n.forgetData()
				return lookEveryRound
			}
			s.closeIdle(n)
			idle := roundsSince(round, n.used.Load())
			if idle >= forgetAfter {
				return 0
			}
			return min(lookEveryRound, forgetAfter-idle)
		})
		s.swept = round
	}
	for n := range s.all() {
		idle := roundsSince(s.cache.round.Load(), n.used.Load())
		if rounds > lookEveryRound && idle > forgetAfter+lookEveryRound && n.refs.Load() == 1 && !n.unsynced.listed.Load() && n != s.cache.root {
			s.m.errorf("a node that nobody has used for %d rounds is in the cache", idle)
		}
	}
}

// all yields the nodes in the cache.
func (s *share) all() map[*node]bool {
	all := map[*node]bool{}
	for i := range s.cache.shards {
		for _, n := range s.cache.shards[i].m {
			all[n] = true
		}
	}
	return all
}

// consistent compares the cache and the list of unsynced nodes with the references that the model has.
func (s *share) consistent() {
	m, all, refs, opens := s.m, s.all(), map[*node]int32{}, map[*node]int{}
	for _, n := range s.held {
		refs[n]++
	}
	for _, n := range s.files {
		refs[n]++
		opens[n]++
	}
	refs[s.cache.root]++
	listed := 0
	for n := range all {
		if want := refs[n] + 1; n.refs.Load() != want {
			m.errorf("a node in the cache has %d references, want %d", n.refs.Load(), want)
		}
		if n.unsynced.listed.Load() {
			listed++
		}
	}
	for n, want := range refs {
		if f := m.fds[n.fd]; f == nil || !all[n] && (f.st.Nlink > 0 || opens[n] > 0) {
			m.errorf("a node with %d references and %d Files has left the cache", want, opens[n])
		}
		if !all[n] && n.refs.Load() != want {
			m.errorf("a forgotten node has %d references, want %d", n.refs.Load(), want)
		}
		if n.opens != opens[n] {
			m.errorf("a node counts %d Files, want %d", n.opens, opens[n])
		}
	}
	u := &s.syncer.unsynced
	if int(s.cache.count.Load()) != len(all) || int(u.count.Load()) != u.nodes.Len() || u.nodes.Len() < listed || s.pinned != len(opens) {
		m.errorf("%d nodes counted, %d in the cache; %d unsynced counted, %d listed, %d of the cache; %d pinned, %d open",
			s.cache.count.Load(), len(all), u.count.Load(), u.nodes.Len(), listed, s.pinned, len(opens))
	}
	for f, acked := range s.acked {
		for _, a := range acked {
			if !f.stable[a.write] && a.verifier == s.syncer.verifier.Load() && f.st.Nlink > 0 && !s.listed(f) {
				m.errorf("write %d of %v is not on the disk, the verifier is the same, and no node is listed as unsynced", a.write, f.h)
			}
		}
	}
}

// listed reports whether f's node in this cache is listed as unsynced.
func (s *share) listed(f *modelFile) bool {
	for n := range s.all() {
		if s.m.fds[n.fd] == f {
			return n.unsynced.listed.Load()
		}
	}
	return false
}

// take returns a random element, and removes it.
func take(r *rand.Rand, list *[]*node) *node {
	i := r.IntN(len(*list))
	n := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return n
}

// do makes one random step.
func (m *model) do() {
	s, f := m.shares[m.r.IntN(2)], m.files[m.r.IntN(len(m.files))]
	var n *node
	if len(s.held) > 0 {
		n = s.held[m.r.IntN(len(s.held))]
	}
	what := m.r.IntN(18)
	m.step = fmt.Sprintf("step %d of share %d", what, slices.Index(m.shares, s))
	switch {
	case what <= 1 || n == nil:
		n = s.find(f)
		s.held = append(s.held, n)
		s.look(n)
	case what <= 3:
		take(m.r, &s.held).put()
	case what == 4:
		if there, err := s.cache.open(n); err == nil && there {
			s.held = slices.Delete(s.held, slices.Index(s.held, n), slices.Index(s.held, n)+1)
			s.files = append(s.files, n)
		} else if err != nil && s.pinned < modelPinned {
			m.errorf("open: %v with %d pinned nodes", err, s.pinned)
		} else if err == nil && m.fds[n.fd].st.Nlink > 0 {
			m.errorf("a node that is held is not in the cache")
		}
	case what == 5 && len(s.files) > 0:
		if n := take(m.r, &s.files); s.cache.close(n) {
			s.cache.drop(n)
			n.put()
		} else {
			n.put()
		}
	case what <= 7:
		s.look(n)
	case what <= 9:
		if f := m.fds[n.fd]; f.st.Nlink > 0 && s.syncer.makeRoomForData(&vfs.Op{}, n) == nil {
			s.write(n)
		}
	case what == 10:
		if f := m.fds[n.fd]; f.st.Nlink > 0 {
			mark := n.mark()
			s.write(n)
			m.fails = m.r.IntN(4) == 0
			last := s.acked[f][len(s.acked[f])-1:]
			if mark.sync() == nil && !f.stable[last[0].write] {
				m.errorf("write %d is not on the disk after its sync", last[0].write)
			}
			m.fails = false
		}
	case what == 11:
		other := m.shares[m.r.IntN(2)]
		if m.fails = m.r.IntN(4) == 0; m.r.IntN(3) == 0 && m.fds[n.fd].st.Nlink > 0 {
			m.during = func() {
				o := other.find(m.fds[n.fd])
				other.write(o)
				o.put()
			}
		}
		s.commit(n)
		m.fails, m.during = false, nil
	case what == 12:
		m.othersChange(f, func() {
			n := s.find(f)
			s.look(n)
			n.put()
		})
	case what == 13:
		if m.r.IntN(4) == 0 {
			f.lose() // a failure of write-back that no call has seen
		} else {
			f.store()
		}
	case what == 14:
		m.clock = m.clock.Add([]time.Duration{time.Microsecond, tick, time.Second, 15 * time.Second}[m.r.IntN(4)])
	case what == 15:
		s.sweep(1 + m.r.IntN(forgetAfter+10))
	case what == 16:
		s.syncer.flush()
		if left := s.syncer.unsynced.count.Load(); left > modelMany {
			m.errorf("%d unsynced nodes after a flush", left)
		}
	case m.r.IntN(3) == 0 && f != m.files[0]:
		m.ownChangeOfLinks(s, f)
	default:
		s.cache.shrink(m.r.IntN(4), 1, 0)
	}
	for _, s := range m.shares {
		s.consistent()
	}
}

// ownChangeOfLinks removes f's last name through s. Another file takes its place.
func (m *model) ownChangeOfLinks(s *share, f *modelFile) {
	n := s.find(f)
	f.st.Nlink = 0
	m.ownChange(f, n)
	s.look(n)
	n.put()
	m.files[slices.Index(m.files, f)] = m.newFile()
}

// end closes everything, as FS.Close does.
func (m *model) end() {
	m.step = "end"
	for _, s := range m.shares {
		for len(s.files) > 0 {
			n := take(m.r, &s.files)
			if s.cache.close(n) {
				s.cache.drop(n)
			}
			n.put()
		}
		for len(s.held) > 0 {
			take(m.r, &s.held).put()
		}
		s.consistent()
		before, lost := s.syncer.verifier.Load(), false
		for n := range s.all() {
			lost = lost || n.unsynced.listed.Load() && !n.inode.gone.Load()
		}
		s.cache.drain()
		if lost && s.syncer.verifier.Load() == before {
			m.errorf("unsynced files were closed and the verifier is the same")
		}
		if s.cache.count.Load() != 0 || s.syncer.unsynced.count.Load() != 0 || s.pinned != 0 {
			m.errorf("left: %d nodes, %d unsynced, %d pinned", s.cache.count.Load(), s.syncer.unsynced.count.Load(), s.pinned)
		}
	}
	if len(m.fds) != 0 {
		m.errorf("%d descriptors are open", len(m.fds))
	}
	for i := range m.inodes.shards {
		if left := len(m.inodes.shards[i].m); left != 0 {
			m.errorf("%d inodes without a node are in use", left)
		}
	}
}

// In a random order of calls, of changes by other programs, of failures of the disk and of rounds of the sweeper:
//
//   - A Change names one state, never falls, and stays while nothing changes.
//   - Change.Atomic is false beside another change, and true for a file that was quiet for long.
//   - A node stays in the cache while a caller uses it or it has unsynced data, and leaves it afterwards.
//   - After a sync without an error, what was acknowledged with the same verifier is on the disk.
//   - Each descriptor is closed once, after its last use.
func TestNodesInRandomOrder(t *testing.T) {
	for seed := range uint64(200) {
		m := newModel(t, seed)
		for range 400 {
			m.do()
		}
		m.end()
	}
}
