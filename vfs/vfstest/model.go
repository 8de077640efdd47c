package vfstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

var modelTests = []Test{
	{"model/one user", func(x *fixture) { testModel(x, false) }},
	{"model/several users", func(x *fixture) { x.users(); testModel(x, true) }},
}

// A model makes the same calls to the file system under test and to vfs/mem, and compares the
// results. vfs/local has the rules of the kernel, so the test of vfs/local shows that vfs/mem is
// right. vfs/mem is then the reference for other file systems.
type model struct {
	x      *fixture
	mem    *memfs.FS
	random *rand.Rand
	users  []*vfs.Op
	// dirs and files are the directories and the other files, in both file systems.
	dirs, files []pair
	// log lists the calls so far, for the report of a failure.
	log       []string
	comparing bool
}

// A pair is one file in both file systems.
type pair struct{ test, mem vfs.Handle }

func testModel(x *fixture, several bool) {
	for seed := range uint64(6) {
		m := &model{x: x, random: rand.New(rand.NewPCG(seed, 42)), users: []*vfs.Op{x.self.op}}
		m.mem = memfs.New(memfs.Options{})
		self := m.users[0].Cred
		s := vfs.SetAttr{SetMode: true, Mode: 0o777, SetUID: true, UID: self.UID, SetGID: true, GID: self.GID}
		top, _, err := m.mem.Mkdir(&vfs.Op{Cred: &vfs.Cred{}}, m.mem.Root(), []byte("work"), &s)
		x.ok(err, "Mkdir")
		if several {
			for _, c := range x.classes() {
				m.users = append(m.users, c.user.op)
			}
		}
		here := x.self.mkdir(x.dir, fmt.Sprint("model", seed), 0o777)
		if !x.opt.NoOwnership {
			x.ok(x.self.set(here, withMode(0o777)), "chmod")
		}
		m.dirs = []pair{{here, top.Handle}}
		for range 400 {
			m.step()
			if x.Failed() {
				break
			}
		}
		m.comparing = true
		m.compare(m.dirs[0], "")
		if x.Failed() {
			for _, l := range m.log[max(0, len(m.log)-25):] {
				x.Log(l)
			}
			return
		}
	}
}

// modes are the modes that files and directories get. Each has the same meaning in all kernel
// versions.
var modes = []uint32{0o777, 0o755, 0o700, 0o750, 0o775, 0o644, 0o640, 0o600, 0o444, 0o400, 0o070, 0o007, 0o005, 0o111,
	0o1777, 0o2775, 0o4755, 0o2755, 0o6755, 0}

func (m *model) name() []byte          { return fmt.Appendf(nil, "name-%c", 'a'+m.random.IntN(5)) }
func (m *model) mode() uint32          { return modes[m.random.IntN(len(modes))] }
func (m *model) user() *vfs.Op         { return m.users[m.random.IntN(len(m.users))] }
func (m *model) dir() pair             { return m.dirs[m.random.IntN(len(m.dirs))] }
func (m *model) any() pair             { return m.pick(append(m.files[:len(m.files):len(m.files)], m.dirs[1:]...)) }
func (m *model) file() pair            { return m.pick(m.files) }
func (m *model) id(of []uint32) uint32 { return of[m.random.IntN(len(of))] }

func (m *model) pick(from []pair) pair {
	if len(from) == 0 {
		return m.dirs[0]
	}
	return from[m.random.IntN(len(from))]
}

// both compares the errors of one call to the two file systems. It reports whether the call
// succeeded in both.
func (m *model) both(what string, op *vfs.Op, test, mem error) bool {
	m.x.Helper()
	if !m.comparing {
		m.log = append(m.log, fmt.Sprintf("%s as %d:%d %v: %v | %v", what, op.Cred.UID, op.Cred.GID, op.Cred.Groups, test, mem))
	}
	if (test == nil) != (mem == nil) {
		m.x.Errorf("%s as %d:%d %v: %v, the model: %v", what, op.Cred.UID, op.Cred.GID, op.Cred.Groups, test, mem)
	}
	return test == nil && mem == nil
}

// found compares the objects that a call made in the two file systems, and adds them to the model.
func (m *model) found(what string, op *vfs.Op, dir pair, name []byte, a, b vfs.Object) {
	m.x.Helper()
	if a.Handle.IsZero() {
		var attr vfs.Attr
		a, _ = m.x.fs.Lookup(&vfs.Op{Cred: m.x.opt.Self}, dir.test, name, &attr)
	}
	p := pair{a.Handle, b.Handle}
	if a.HasAttr {
		m.same(what, a.Attr, b.Attr)
	}
	if b.Attr.Type == vfs.Directory {
		m.dirs = append(m.dirs, p)
	} else {
		m.files = append(m.files, p)
	}
}

// same compares the attributes a and b of one file in the two file systems. It leaves out those
// that may differ.
func (m *model) same(what string, a, b vfs.Attr) {
	m.x.Helper()
	bad := a.Type != b.Type
	if !m.x.opt.NoOwnership {
		bad = bad || a.Type != vfs.Symlink && a.Mode != b.Mode || a.UID != b.UID || a.GID != b.GID
	}
	if a.Type == vfs.Directory {
		bad = bad || a.Nlink > 1 && a.Nlink != b.Nlink
	} else {
		bad = bad || a.Size != b.Size || m.x.info.HardLinks && a.Nlink != b.Nlink
	}
	if bad {
		m.x.Errorf("%s: %v %o %d:%d size %d links %d, the model %v %o %d:%d size %d links %d", what,
			a.Type, a.Mode, a.UID, a.GID, a.Size, a.Nlink, b.Type, b.Mode, b.UID, b.GID, b.Size, b.Nlink)
	}
}

// steps are the calls of a model. Frequent calls are listed more than once.
var steps = []func(m *model, op *vfs.Op){
	(*model).create, (*model).create, (*model).mkdir, (*model).mkdir, (*model).symlink, (*model).link,
	(*model).remove, (*model).rmdir, (*model).rename, (*model).rename, (*model).rename,
	(*model).setMode, (*model).setOwner, (*model).setSize, (*model).write, (*model).write,
	(*model).read, (*model).lookup, (*model).lookup, (*model).access, (*model).list,
}

func (m *model) step() { steps[m.random.IntN(len(steps))](m, m.user()) }

func (m *model) create(op *vfs.Op) {
	dir, name := m.dir(), m.name()
	how := &vfs.CreateHow{Mode: vfs.Guarded, Attr: withMode(m.mode())}
	if op == m.users[0] && m.random.IntN(3) == 0 {
		// Only the first user makes unchecked creations, which open a file that exists. A kernel
		// setting (fs.protected_regular) may keep other users from opening files of others in a
		// sticky directory.
		how.Mode, how.Attr.SetSize = vfs.Unchecked, m.random.IntN(2) == 0
	}
	a, _, e1 := m.x.fs.Create(op, dir.test, name, how)
	b, _, e2 := m.mem.Create(op, dir.mem, name, how)
	what := fmt.Sprintf("Create(%v, %s, %o, mode %d)", dir.mem, name, how.Attr.Mode, how.Mode)
	if m.both(what, op, e1, e2) {
		m.found(what, op, dir, name, a, b)
	}
}

func (m *model) mkdir(op *vfs.Op) {
	// No set-id bits: kernels treat them differently on a new directory.
	dir, name, s := m.dir(), m.name(), withMode(m.mode()&0o1777)
	if m.x.opt.NoOwnership {
		s.Mode = 0o755
	}
	a, _, e1 := m.x.fs.Mkdir(op, dir.test, name, &s)
	b, _, e2 := m.mem.Mkdir(op, dir.mem, name, &s)
	what := fmt.Sprintf("Mkdir(%v, %s, %o)", dir.mem, name, s.Mode)
	if m.both(what, op, e1, e2) {
		m.found(what, op, dir, name, a, b)
	}
}

func (m *model) symlink(op *vfs.Op) {
	if !m.x.info.Symlinks {
		return
	}
	dir, name := m.dir(), m.name()
	a, _, e1 := m.x.fs.Symlink(op, dir.test, name, []byte("../text"), &vfs.SetAttr{})
	b, _, e2 := m.mem.Symlink(op, dir.mem, name, []byte("../text"), &vfs.SetAttr{})
	what := fmt.Sprintf("Symlink(%v, %s)", dir.mem, name)
	if m.both(what, op, e1, e2) {
		m.found(what, op, dir, name, a, b)
	}
}

// link always acts as the first user, because a kernel setting (fs.protected_hardlinks) may keep
// users from linking to files of others.
func (m *model) link(*vfs.Op) {
	if !m.x.info.HardLinks {
		return
	}
	op := m.users[0]
	f, dir, name := m.file(), m.dir(), m.name()
	var a, b vfs.Attr
	_, e1 := m.x.fs.Link(op, f.test, dir.test, name, &a)
	_, e2 := m.mem.Link(op, f.mem, dir.mem, name, &b)
	what := fmt.Sprintf("Link(%v, %v, %s)", f.mem, dir.mem, name)
	if m.both(what, op, e1, e2) {
		m.same(what, a, b)
	}
}

func (m *model) remove(op *vfs.Op) {
	dir, name := m.dir(), m.name()
	_, e1 := m.x.fs.Remove(op, dir.test, name)
	_, e2 := m.mem.Remove(op, dir.mem, name)
	m.both(fmt.Sprintf("Remove(%v, %s)", dir.mem, name), op, e1, e2)
}

func (m *model) rmdir(op *vfs.Op) {
	dir, name := m.dir(), m.name()
	_, e1 := m.x.fs.Rmdir(op, dir.test, name)
	_, e2 := m.mem.Rmdir(op, dir.mem, name)
	m.both(fmt.Sprintf("Rmdir(%v, %s)", dir.mem, name), op, e1, e2)
}

func (m *model) rename(op *vfs.Op) {
	from, a, to, b := m.dir(), m.name(), m.dir(), m.name()
	_, _, e1 := m.x.fs.Rename(op, from.test, a, to.test, b)
	_, _, e2 := m.mem.Rename(op, from.mem, a, to.mem, b)
	m.both(fmt.Sprintf("Rename(%v, %s, %v, %s)", from.mem, a, to.mem, b), op, e1, e2)
}

func (m *model) set(what string, op *vfs.Op, p pair, s *vfs.SetAttr) {
	_, e1 := m.x.fs.SetAttr(op, p.test, s, nil)
	_, e2 := m.mem.SetAttr(op, p.mem, s, nil)
	m.both(fmt.Sprintf("%s(%v, %+v)", what, p.mem, *s), op, e1, e2)
	m.look(what, p)
}

// look compares the attributes of a pair, read as the first user.
func (m *model) look(what string, p pair) {
	var a, b vfs.Attr
	e1 := m.x.fs.GetAttr(m.users[0], p.test, &a)
	e2 := m.mem.GetAttr(m.users[0], p.mem, &b)
	if m.both(fmt.Sprintf("GetAttr(%v) after %s", p.mem, what), m.users[0], e1, e2) {
		m.same(fmt.Sprintf("%v after %s", p.mem, what), a, b)
	}
}

func (m *model) isSymlink(p pair) bool {
	var a vfs.Attr
	m.mem.GetAttr(m.users[0], p.mem, &a)
	return a.Type == vfs.Symlink
}

func (m *model) setMode(op *vfs.Op) {
	if p, s := m.any(), withMode(m.mode()); !m.x.opt.NoOwnership && !m.isSymlink(p) {
		m.set("chmod", op, p, &s)
	}
}

func (m *model) setOwner(op *vfs.Op) {
	p := m.any()
	if len(m.users) == 1 || m.isSymlink(p) {
		return
	}
	s := vfs.SetAttr{SetUID: m.random.IntN(2) == 0, SetGID: m.random.IntN(2) == 0,
		UID: m.id([]uint32{aliceID, bobID, carolID}), GID: m.id([]uint32{staffID, crewID, guestsID})}
	if s.SetUID || s.SetGID {
		m.set("chown", op, p, &s)
	}
}

// keeps reports whether p has set-id bits and op's caller is user 0. In that case some file
// systems clear the bits when the content changes, and some do not.
func (m *model) keeps(op *vfs.Op, p pair) bool {
	var a vfs.Attr
	m.mem.GetAttr(m.users[0], p.mem, &a)
	return op.Cred.UID == 0 && a.Mode&0o6000 != 0
}

func (m *model) setSize(op *vfs.Op) {
	p := m.any()
	if m.keeps(op, p) {
		return
	}
	m.set("truncation", op, p, &vfs.SetAttr{SetSize: true, Size: uint64(m.random.IntN(20_000))})
}

func (m *model) write(op *vfs.Op) {
	p, off := m.file(), uint64(m.random.IntN(10_000))
	data := [][]byte{bytes.Repeat([]byte{byte(m.random.Uint32())}, 1+m.random.IntN(8000))}
	if m.keeps(op, p) {
		return
	}
	stable := vfs.Stability(m.random.IntN(3))
	_, _, _, e1 := m.x.fs.Write(op, p.test, off, data, stable)
	_, _, _, e2 := m.mem.Write(op, p.mem, off, data, stable)
	m.both(fmt.Sprintf("Write(%v, %d, %d)", p.mem, off, len(data[0])), op, e1, e2)
	m.look("Write", p)
}

func (m *model) read(op *vfs.Op) {
	p, off := m.any(), uint64(m.random.IntN(15_000))
	var a, b vfs.Attr
	one, two := make([]byte, 9000), make([]byte, 9000)
	n1, eof1, e1 := m.x.fs.Read(op, p.test, off, one, &a)
	n2, eof2, e2 := m.mem.Read(op, p.mem, off, two, &b)
	what := fmt.Sprintf("Read(%v, %d)", p.mem, off)
	if m.both(what, op, e1, e2) && (n1 != n2 || eof1 != eof2 || !bytes.Equal(one[:n1], two[:n2])) {
		m.x.Errorf("%s: %d bytes, %v; the model %d, %v", what, n1, eof1, n2, eof2)
	}
}

func (m *model) lookup(op *vfs.Op) {
	dir, name := m.dir(), m.name()
	if m.random.IntN(4) == 0 {
		name = []byte("..")[:1+m.random.IntN(2)]
		if dir == m.dirs[0] {
			return
		}
	}
	var a, b vfs.Attr
	o1, e1 := m.x.fs.Lookup(op, dir.test, name, &a)
	o2, e2 := m.mem.Lookup(op, dir.mem, name, &b)
	what := fmt.Sprintf("Lookup(%v, %s)", dir.mem, name)
	if m.both(what, op, e1, e2) && o1.HasAttr {
		m.same(what, o1.Attr, o2.Attr)
	}
}

func (m *model) access(op *vfs.Op) {
	p := m.any()
	var a, b vfs.Attr
	got, e1 := m.x.fs.Access(op, p.test, allAccess, &a)
	want, e2 := m.mem.Access(op, p.mem, allAccess, &b)
	what := fmt.Sprintf("Access(%v)", p.mem)
	if !m.both(what, op, e1, e2) || m.x.opt.NoOwnership || a.Type == vfs.Symlink {
		return
	}
	mask := vfs.AccessRead | vfs.AccessLookup | vfs.AccessExecute
	if a.Type != vfs.Directory {
		mask |= vfs.AccessModify | vfs.AccessExtend
	}
	if got&mask != want&mask {
		m.x.Errorf("%s as %d: %#x, the model %#x of %o", what, op.Cred.UID, got, want, b.Mode)
	}
}

func (m *model) list(op *vfs.Op) {
	dir := m.dir()
	var a, b vfs.Attr
	names := map[string]int{}
	_, e1 := m.x.fs.ReadDir(op, dir.test, 0, false, &a, func(e *vfs.DirEntry) bool { names[string(e.Name)]++; return true })
	_, e2 := m.mem.ReadDir(op, dir.mem, 0, false, &b, func(e *vfs.DirEntry) bool { names[string(e.Name)]--; return true })
	what := fmt.Sprintf("ReadDir(%v)", dir.mem)
	if !m.both(what, op, e1, e2) {
		return
	}
	for n, d := range names {
		if d != 0 {
			m.x.Errorf("%s lists %q %d times more than the model", what, n, d)
		}
	}
}

// compare compares the trees below p in the two file systems, read as the first user.
func (m *model) compare(p pair, path string) {
	x, op := m.x, m.users[0]
	m.look(path, p)
	var a vfs.Attr
	var names [][]byte
	_, err := m.mem.ReadDir(op, p.mem, 2, false, &a, func(e *vfs.DirEntry) bool {
		names = append(names, bytes.Clone(e.Name))
		return true
	})
	x.ok(err, "ReadDir of the model")
	if n := len(x.self.names(p.test)); n != len(names) {
		x.Errorf("%s has %d names, in the model %d", path, n, len(names))
	}
	for _, name := range names {
		o1, e1 := x.fs.Lookup(op, p.test, name, &a)
		o2, e2 := m.mem.Lookup(op, p.mem, name, &a)
		below, at := pair{o1.Handle, o2.Handle}, path+"/"+string(name)
		if !m.both("Lookup of "+at, op, e1, e2) {
			return
		}
		switch o2.Attr.Type {
		case vfs.Directory:
			m.compare(below, at)
		case vfs.Regular:
			m.look(at, below)
			one, err := x.self.read(below.test, 0, 40_000)
			x.ok(err, "Read of ", at)
			two := make([]byte, 40_000)
			n, _, err := m.mem.Read(op, below.mem, 0, two, &a)
			x.ok(err, "Read of the model's ", at)
			if one != string(two[:n]) {
				x.Errorf("the content of %s differs", at)
			}
		}
	}
}
