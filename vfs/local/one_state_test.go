package local_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// looksVar is the environment variable with the number of looks (readings of attributes), for a
// longer TestOneStateOneChange.
const looksVar = "NFSRDMAD_LOOKS"

// A state holds the attributes that the changes of the test modify.
type state struct {
	size  uint64
	mode  uint32
	nlink uint32
}

func stateOf(a *vfs.Attr) state { return state{a.Size, a.Mode, a.Nlink} }

// A history holds the successive states of one file, each with its Change.
type history struct {
	h        vfs.Handle
	name     string
	begun    atomic.Int64 // number of changes begun
	answered atomic.Int64 // number of changes that have returned

	mu      sync.Mutex
	changes []uint64
	at      map[state][]int // indexes of a state in changes; several, if the file returned to that state
}

func (x *history) add(a *vfs.Attr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at[stateOf(a)] = append(x.at[stateOf(a)], len(x.changes))
	x.changes = append(x.changes, a.Change)
	x.answered.Store(int64(len(x.changes)))
}

// made records the state after a change, read while no other change runs. answer holds the
// attributes that the change returned. It is empty for changes of names and changes by local
// programs.
func (x *history) made(t *testing.T, fs *local.FS, answer *vfs.Attr) {
	a := fs.StillAttr(x.h)
	if answer.Type != 0 && (stateOf(answer) != stateOf(&a) || answer.Change > a.Change) {
		t.Errorf("a change told %+v, and left %+v", answer, a)
	}
	x.add(&a)
}

// A sight is the result of a look: the state and its Change. before is the number of changes that
// had returned before the look, after the number of changes begun before its end.
type sight struct {
	of            int
	op            string
	change        uint64
	state         state
	before, after int64
}

// judge returns the fault of a look, or "". The state must not be older than the state that its
// Change names, nor than the last state before the look began. The change that made the state must
// have begun before the look ended.
func (x *history) judge(s *sight) string {
	oldest, ok := slices.BinarySearch(x.changes, s.change)
	if !ok {
		oldest-- // the Change is between those of two states: of half a change, or of a state that got another Change later
	}
	last := int(s.before) - 1
	if s.change < x.changes[last] {
		return fmt.Sprintf("a Change lower than that of state %d, which was answered before", last)
	}
	oldest = max(oldest, last)
	for _, at := range x.at[s.state] {
		if oldest <= at && at < int(s.after) {
			return ""
		}
	}
	return fmt.Sprintf("%+v, which is none of the states %d to %d, but of %v", s.state, oldest, s.after-1, x.at[s.state])
}

// Two exports of a tree and a local program change files: content, size, mode, ACL, extended
// attributes and names. All operations that return attributes look at the files through both
// exports. Each look shows one state of the file. Its Change names that state or, while a change
// runs, an older one, but never a newer one. A Change never falls.
func TestOneStateOneChange(t *testing.T) {
	const round = 6000 // looks in one round; each round uses new files
	total := round
	if s := os.Getenv(looksVar); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, local.Config{})
	other := open(t, local.Config{Root: w.cfg.Root, StateDir: t.TempDir()})
	for n := 0; n < total && !t.Failed(); n += round {
		w.oneState(other, n, round)
	}
}

func (w *world) oneState(other *local.FS, seed, total int) {
	t, root := w.T, w.fs.Root()
	files := make([]*history, 2)
	for i := range files {
		name := fmt.Sprint("f", i, ".", seed)
		x := &history{h: w.create(root, name), name: name, at: map[state][]int{}}
		a, err := w.attr(x.h)
		w.ok(err)
		x.add(&a)
		x.begun.Store(1)
		files[i] = x
	}
	op := w.op
	looks := []struct {
		name string
		ask  func(fs *local.FS, x *history, a *vfs.Attr) error
	}{
		{"GetAttr", func(fs *local.FS, x *history, a *vfs.Attr) error { return fs.GetAttr(op, x.h, a) }},
		{"Access", func(fs *local.FS, x *history, a *vfs.Attr) error {
			_, err := fs.Access(op, x.h, vfs.AccessRead, a)
			return err
		}},
		{"Read", func(fs *local.FS, x *history, a *vfs.Attr) error {
			_, _, err := fs.Read(op, x.h, 0, make([]byte, 1), a)
			return err
		}},
		{"Lookup", func(fs *local.FS, x *history, a *vfs.Attr) error {
			o, err := fs.Lookup(op, root, []byte(x.name), new(vfs.Attr))
			*a = o.Attr
			return err
		}},
		{"ReadDir", func(fs *local.FS, x *history, a *vfs.Attr) error {
			_, err := fs.ReadDir(op, root, 0, true, new(vfs.Attr), func(e *vfs.DirEntry) bool {
				if string(e.Name) == x.name {
					*a = e.Attr
				}
				return true
			})
			return err
		}},
		{"Commit", func(fs *local.FS, x *history, a *vfs.Attr) error {
			ch, err := fs.Commit(op, x.h, 0, 0)
			*a = ch.After
			return err
		}},
		{"SetAttr of nothing", func(fs *local.FS, x *history, a *vfs.Attr) error {
			ch, err := fs.SetAttr(op, x.h, &vfs.SetAttr{}, nil)
			*a = ch.Before
			return err
		}},
		{"Write of nothing", func(fs *local.FS, x *history, a *vfs.Attr) error {
			_, _, ch, err := fs.Write(op, x.h, 0, nil, vfs.Unstable)
			*a = ch.After
			return err
		}},
		{"Link to a name that exists", func(fs *local.FS, x *history, a *vfs.Attr) error {
			if _, err := fs.Link(op, x.h, root, []byte(x.name), a); err == nil {
				return fmt.Errorf("made %s again", x.name)
			}
			return nil
		}},
	}
	var left atomic.Int64
	left.Store(int64(total))
	var lookers, changers sync.WaitGroup
	var done atomic.Bool
	for i, x := range files {
		by := [2]*local.FS{w.fs, other}
		program, err := os.OpenFile(w.path(x.name), os.O_RDWR, 0)
		w.ok(err)
		defer program.Close()
		changers.Go(func() {
			for n := 1; !done.Load(); n++ {
				size := uint64(n*7919) % 1000003
				fs := by[(i+n/8)%2]
				var ch vfs.Change
				var err error
				x.begun.Add(1)
				switch n % 8 {
				case 0:
					_, _, ch, err = fs.Write(op, x.h, size, [][]byte{{1}}, vfs.Unstable)
				case 1:
					ch, err = fs.SetAttr(op, x.h, &vfs.SetAttr{SetSize: true, Size: size}, nil)
				case 2:
					ch, err = fs.SetAttr(op, x.h, &vfs.SetAttr{SetMode: true, Mode: 0o600 | uint32(n/8)&0o77}, nil)
				case 3:
					link := []byte(x.name + "link")
					if _, err = fs.Link(op, x.h, root, link, &ch.After); err == nil {
						x.made(t, fs, &ch.After)
						x.begun.Add(1)
						ch.After = vfs.Attr{}
						_, err = by[(i+n/8+1)%2].Remove(op, root, link)
					}
				case 4: // the group's mode bits show the ACL's mask
					acl := accessACL(1000, uint16(n/8)&7)
					err = unix.Fsetxattr(int(program.Fd()), "system.posix_acl_access", acl, 0)
				case 5:
					ch, err = fs.SetXattr(op, x.h, []byte("name"), []byte{byte(n)}, vfs.XattrEither)
				case 6:
					_, err = program.WriteAt([]byte{1}, int64(size))
				case 7:
					err = program.Truncate(int64(size))
				}
				if err != nil {
					t.Error(err)
					return
				}
				x.made(t, fs, &ch.After)
			}
		})
	}
	sights := make([][]sight, 4)
	for i := range sights {
		fs := []*local.FS{w.fs, other}[i%2]
		lookers.Go(func() {
			last := [2]uint64{}
			for n := left.Add(-1); n >= 0 && !t.Failed(); n = left.Add(-1) {
				f, l := int(n)%2, looks[int(n/2)%len(looks)]
				x := files[f]
				s := sight{of: f, op: l.name, before: x.answered.Load()}
				var a vfs.Attr
				if err := l.ask(fs, x, &a); err != nil {
					t.Errorf("%s: %v", l.name, err)
					return
				}
				s.change, s.state, s.after = a.Change, stateOf(&a), x.begun.Load()
				if s.change < last[f] {
					t.Errorf("%s told Change %d behind %d", l.name, s.change, last[f])
				}
				last[f] = s.change
				sights[i] = append(sights[i], s)
			}
		})
	}
	lookers.Wait()
	done.Store(true)
	changers.Wait()
	for _, all := range sights {
		for _, s := range all {
			if wrong := files[s.of].judge(&s); wrong != "" {
				t.Errorf("%s told %s", s.op, wrong)
				return
			}
		}
	}
	for _, x := range files {
		w.remove(root, x.name)
	}
}
