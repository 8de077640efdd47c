package state

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"pgregory.net/rapid"
)

// cells is the number of parts into which the tests divide a file. A test locks whole cells: single
// bytes at the lowest and the highest offsets, and one large part between them.
const cells = 12

const lastOffset = 1<<64 - 1

// startOf and lastOf return the first and the last byte of a cell.
func startOf(cell int) uint64 {
	if cell > cells/2 {
		return lastOffset - uint64(cells-1-cell)
	}
	return uint64(cell)
}

func lastOf(cell int) uint64 {
	if cell == cells-1 {
		return lastOffset
	}
	return startOf(cell+1) - 1
}

// A model holds the opens and locks that the owners should have in the Manager m.
type model struct {
	m       *Manager
	count   openCount
	clients [32]*modelClient
	hosts   [4]modelHost
	files   [3]FileKey
	// claims has, for each file, the local claims of the Manager and the locks of this machine's
	// processes. It is nil if the Manager makes no claims.
	claims map[vfs.Handle]*modelClaims
	// prompts counts the calls of Prompt.
	prompts int
}

type modelClient struct {
	*Client
	opens map[[2]int]*modelOpen // by owner and file
}

type modelOpen struct {
	client *modelClient
	file   int
	id     StateID
	modes  map[[2]Access]bool
	locks  map[int]*modelLock // by lock-owner
}

type modelLock struct {
	id    StateID
	cells [cells]int
}

func (o *modelOpen) union() (access, deny Access) {
	for m := range o.modes {
		access |= m[0]
		deny |= m[1]
	}
	return access, deny
}

// all calls f for each open in the model.
func (m *model) all(f func(o *modelOpen)) {
	for _, c := range m.clients {
		for _, o := range c.opens {
			f(o)
		}
	}
}

func (m *model) ref(o *modelOpen, id StateID) *Ref {
	return &Ref{ID: id, Client: o.client.Client, Key: m.files[o.file]}
}

func (m *model) open(t *rapid.T) {
	c := m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
	owner := rapid.IntRange(0, 1).Draw(t, "owner")
	file := rapid.IntRange(0, len(m.files)-1).Draw(t, "file")
	access := Access(rapid.IntRange(1, 3).Draw(t, "access"))
	deny := Access(max(0, rapid.IntRange(-6, 3).Draw(t, "deny")))
	want := ok
	m.all(func(o *modelOpen) {
		a, d := o.union()
		if o.file == file && (a&deny != 0 || d&access != 0) {
			want = OpenConflict
		}
	})
	f := m.count.open()
	got, s := m.m.Open(&OpenArgs{
		Client: c.Client, OwnerName: fmt.Appendf(nil, "owner %d", owner), Key: m.files[file],
		Access: access, Deny: deny, File: f,
	})
	if s != want {
		t.Fatalf("OPEN is answered %v, not %v", s, want)
	}
	if s != ok {
		f.Close()
		return
	}
	o := c.opens[[2]int{owner, file}]
	if o == nil {
		o = &modelOpen{client: c, file: file, modes: map[[2]Access]bool{}, locks: map[int]*modelLock{}}
		c.opens[[2]int{owner, file}] = o
	} else if o.id.Other != got.ID.Other || got.ID.Seqid != o.id.Seqid+1 {
		t.Fatalf("%v after %v", got.ID, o.id)
	}
	o.id = got.ID
	o.modes[[2]Access{access, deny}] = true
	m.may(t, o)
}

// may checks which accesses the Manager allows with the stateid of an open.
func (m *model) may(t *rapid.T, o *modelOpen) {
	s, verdict := m.m.Resolve(m.ref(o, o.id), KindOpen)
	if verdict != ok {
		t.Fatal(verdict)
	}
	has, _ := o.union()
	for _, want := range [...]Access{AccessRead, AccessWrite} {
		f, verdict := s.For(want, Principal{})
		if (verdict == ok) != (has&want != 0) || verdict == ok && f.(*countedFile).closed.Load() {
			t.Fatalf("open for %d, used for %d: %v", has, want, verdict)
		}
	}
}

// any draws one of the opens, or returns nil if there is none.
func (m *model) any(t *rapid.T) *modelOpen {
	var opens []*modelOpen
	for _, c := range m.clients {
		for owner := range 2 {
			for file := range m.files {
				if o := c.opens[[2]int{owner, file}]; o != nil {
					opens = append(opens, o)
				}
			}
		}
	}
	if len(opens) == 0 {
		return nil
	}
	return opens[rapid.IntRange(0, len(opens)-1).Draw(t, "open")]
}

func (m *model) downgrade(t *rapid.T) {
	o := m.any(t)
	if o == nil {
		return
	}
	access := Access(rapid.IntRange(1, 3).Draw(t, "access"))
	deny := Access(rapid.IntRange(0, 3).Draw(t, "deny"))
	left := map[[2]Access]bool{}
	var a, d Access
	for mode := range o.modes {
		if mode[0]&^access == 0 && mode[1]&^deny == 0 {
			left[mode] = true
			a |= mode[0]
			d |= mode[1]
		}
	}
	want := ok
	if a != access || d != deny {
		want = Invalid
	}
	id, s := m.m.Downgrade(m.ref(o, o.id), access, deny)
	if s != want {
		t.Fatalf("OPEN_DOWNGRADE to %d, %d of %v: %v", access, deny, o.modes, s)
	}
	if s == ok {
		o.id, o.modes = id, left
		m.may(t, o)
	}
}

func (m *model) close(t *rapid.T) {
	o := m.any(t)
	if o == nil {
		return
	}
	if try := rapid.Bool().Draw(t, "try"); try {
		want := ok
		for _, l := range o.locks {
			if m.claims != nil && l.cells != [cells]int{} {
				want = WouldWait
			}
		}
		if _, s := m.m.CloseOpen(m.ref(o, o.id), true); s != want {
			t.Fatalf("an attempt to CLOSE: %v, not %v", s, want)
		} else if s == ok {
			m.closed(t, o)
			return
		}
	}
	if _, s := m.m.CloseOpen(m.ref(o, o.id), false); s != ok {
		t.Fatalf("CLOSE: %v", s)
	}
	m.closed(t, o)
}

// closed removes an open and the locks made through it from the model.
func (m *model) closed(t *rapid.T, o *modelOpen) {
	for key, other := range o.client.opens {
		if other == o {
			delete(o.client.opens, key)
		}
	}
	ids := []StateID{o.id}
	for _, l := range o.locks {
		ids = append(ids, l.id)
	}
	for _, id := range ids {
		if _, s := m.m.Resolve(m.ref(o, id), 0); s != UnknownID {
			t.Fatalf("after CLOSE: %v", s)
		}
	}
}

// span draws neighbouring cells, and returns their offset and length.
func span(t *rapid.T) (from, to int, offset, length uint64) {
	from = rapid.IntRange(0, cells-1).Draw(t, "from")
	to = rapid.IntRange(from, cells-1).Draw(t, "to")
	if to == cells-1 || from == 0 && to == cells-2 { // a Length of all ones reaches to the end of the file
		return from, cells - 1, startOf(from), lastOffset
	}
	return from, to, startOf(from), lastOf(to) - startOf(from) + 1
}

// conflict reports whether another lock-owner, or a process of the machine, has a
// conflicting lock on cells of a file.
func (m *model) conflict(c *modelClient, owner, file, from, to, how int) (conflict bool) {
	if c := m.claims[m.files[file].Handle]; c != nil {
		start, length := startOf(from), uint64(vfs.ToEnd)
		if to < cells-1 {
			length = lastOf(to) - start + 1
		}
		if _, conflict, _ = c.local.Against(start, length, vfs.ClaimMode(how)); conflict {
			return true
		}
	}
	if m.hostConflict(nil, owner, file, from, to, how) {
		return true
	}
	m.all(func(o *modelOpen) {
		for other, l := range o.locks {
			if o.file != file || o.client == c && other == owner {
				continue
			}
			for cell := from; cell <= to; cell++ {
				conflict = conflict || l.cells[cell] > 0 && (how == 2 || l.cells[cell] == 2)
			}
		}
	})
	return conflict
}

func (m *model) lock(t *rapid.T) {
	o := m.any(t)
	if o == nil {
		return
	}
	owner := rapid.IntRange(0, 2).Draw(t, "lock-owner")
	how := rapid.IntRange(1, 2).Draw(t, "how")
	from, to, offset, length := span(t)
	a := LockArgs{Offset: offset, Length: length, Write: how == 2, Claimer: m.claimer()}
	l := o.locks[owner]
	if a.New = l == nil || rapid.Bool().Draw(t, "as if it were the first"); a.New {
		a.Ref, a.OwnerName = *m.ref(o, o.id), fmt.Appendf(nil, "locker %d", owner)
	} else {
		a.Ref = *m.ref(o, l.id)
	}
	want := ok
	if access, _ := o.union(); access&Access(how) == 0 {
		want = NotOpenFor
	} else if m.conflict(o.client, owner, o.file, from, to, how) {
		want = LockConflict
	}
	var d *Denied
	id, s := promptOrNot(func(try bool) (id StateID, v Verdict) {
		a.Try = try
		id, d, v = m.m.Lock(&a)
		return id, v
	})
	if s != want || (d != nil) != (s == LockConflict) {
		t.Fatalf("LOCK: %v %v, not %v", s, d, want)
	}
	if s != ok {
		return
	}
	if l == nil {
		l = &modelLock{}
		o.locks[owner] = l
	} else if id.Other != l.id.Other || id.Seqid != l.id.Seqid+1 {
		t.Fatalf("%v after %v", id, l.id)
	}
	l.id = id
	for cell := from; cell <= to; cell++ {
		l.cells[cell] = how
	}
}

func (m *model) test(t *rapid.T) {
	c := m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
	file := rapid.IntRange(0, len(m.files)-1).Draw(t, "file")
	owner := rapid.IntRange(0, 2).Draw(t, "lock-owner")
	how := rapid.IntRange(1, 2).Draw(t, "how")
	from, to, offset, length := span(t)
	_, s := m.m.TestLock(c.Client, fmt.Appendf(nil, "locker %d", owner), m.files[file], offset, length, how == 2, m.claimer(), nil)
	if want := m.conflict(c, owner, file, from, to, how); (s == LockConflict) != want {
		t.Fatalf("LOCKT: %v", s)
	}
}

// locked draws one of the locks, or returns nil if there is none.
func (m *model) locked(t *rapid.T) (*modelOpen, int) {
	o := m.any(t)
	if o == nil {
		return nil, 0
	}
	owner := rapid.IntRange(0, 2).Draw(t, "lock-owner")
	if o.locks[owner] == nil {
		return nil, 0
	}
	return o, owner
}

func (m *model) unlock(t *rapid.T) {
	o, owner := m.locked(t)
	if o == nil {
		return
	}
	l := o.locks[owner]
	from, to, offset, length := span(t)
	id, s := promptOrNot(func(try bool) (StateID, Verdict) {
		return m.m.Unlock(m.ref(o, l.id), offset, length, m.claimer(), try)
	})
	if s != ok {
		t.Fatal(s)
	}
	l.id = id
	for cell := from; cell <= to; cell++ {
		l.cells[cell] = 0
	}
}

func (m *model) free(t *rapid.T) {
	o, owner := m.locked(t)
	if o == nil {
		return
	}
	l := o.locks[owner]
	want := ok
	if l.cells != [cells]int{} {
		want = HoldsLocks
	}
	if s := m.m.FreeStateID(&l.id, o.client.Client); s != want {
		t.Fatalf("FREE_STATEID: %v, not %v", s, want)
	}
	if want == ok {
		delete(o.locks, owner)
	}
}

// leave replaces a client by a new one, which removes all state of the first.
func (m *model) leave(t *rapid.T) {
	i := rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")
	m.drop(i)
	m.join(i)
}

func (m *model) drop(i int) {
	m.m.removeNow(m.clients[i].Client)
}

func (m *model) join(i int) {
	m.clients[i] = &modelClient{Client: newClient(m.m, 1, fmt.Sprint("client ", i)), opens: map[[2]int]*modelOpen{}}
}

// The Manager's grants never conflict, it grants every request that conflicts with nothing, and in
// the end no state is left.
func TestOpensAndLocksModel(t *testing.T) { testModel(t, false) }

// The local claims match the clients' locks exactly.
func TestClaimsModel(t *testing.T) { testModel(t, true) }

func testModel(t *testing.T, claims bool) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{}
		var err error
		if m.m, err = New(Config{}); err != nil {
			t.Fatal(err)
		}
		defer m.m.Close()
		for i := range m.files {
			m.files[i] = fileKey(i)
			if claims {
				if m.claims == nil {
					m.claims = map[vfs.Handle]*modelClaims{}
				}
				m.claims[m.files[i].Handle] = &modelClaims{}
			}
		}
		for i := range m.clients {
			m.join(i)
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": m.open, "open again": m.open, "downgrade": m.downgrade, "close": m.close,
			"lock": m.lock, "lock again": m.lock, "test": m.test, "unlock": m.unlock, "free": m.free, "leave": m.leave,
			"host locks": m.hostLock, "host locks again": m.hostLock, "host tests": m.hostTest, "host unlocks": m.hostUnlock,
			"host restarts":   m.hostRestarts,
			"a local process": m.local, "": m.follows,
		})
		for i := range m.clients {
			m.drop(i)
			m.clients[i] = &modelClient{}
		}
		for i := range m.hosts {
			m.hosts[i].unlockAll(t, m)
		}
		m.follows(t)
		nothingLeft(t, m.m)
		if n := len(m.m.files.claims); n != 0 {
			t.Errorf("%d files are still claimed", n)
		}
		if n := m.count.n.Load(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
	})
}
