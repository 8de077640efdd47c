package state

import (
	"fmt"
	"net/netip"

	"pgregory.net/rapid"
)

// A modelHost is a host of NFSv3's lock protocol in the model: the locked cells of each of its owners in each file.
type modelHost struct {
	locks map[[2]int]*[cells]int // by file and owner
}

var hostAddress = netip.MustParseAddr("192.0.2.7")

func (m *model) hostName(h *modelHost) []byte {
	for i := range m.hosts {
		if &m.hosts[i] == h {
			return fmt.Appendf(nil, "host %d", i)
		}
	}
	panic("no host of this model")
}

func (m *model) hostLocks(file int, f func(h *modelHost, owner int, locked *[cells]int)) {
	for i := range m.hosts {
		for key, locked := range m.hosts[i].locks {
			if key[0] == file {
				f(&m.hosts[i], key[1], locked)
			}
		}
	}
}

// hostConflict reports whether another owner than that of h has locked cells through a host.
func (m *model) hostConflict(h *modelHost, owner, file, from, to, how int) (conflict bool) {
	m.hostLocks(file, func(other *modelHost, by int, locked *[cells]int) {
		for cell := from; cell <= to && !(h == other && by == owner); cell++ {
			conflict = conflict || locked[cell] > 0 && (how == 2 || locked[cell] == 2)
		}
	})
	return conflict
}

// inTheWay reports whether anything keeps an owner of h from the cells.
func (m *model) inTheWay(h *modelHost, owner, file, from, to, how int) bool {
	if m.hostConflict(h, owner, file, from, to, how) {
		return true
	}
	hosts := m.hosts
	m.hosts = [len(m.hosts)]modelHost{}
	defer func() { m.hosts = hosts }()
	return m.conflict(nil, owner, file, from, to, how)
}

func (m *model) hostLock(t *rapid.T) {
	h := &m.hosts[rapid.IntRange(0, len(m.hosts)-1).Draw(t, "host")]
	owner := rapid.IntRange(0, 2).Draw(t, "owner")
	file := rapid.IntRange(0, len(m.files)-1).Draw(t, "file")
	how := rapid.IntRange(1, 2).Draw(t, "how")
	from, to, offset, length := span(t)
	c, s := m.m.HostOf(m.hostName(h), hostAddress, hostAddress, nil)
	if s != ok {
		t.Fatal(s)
	}
	want := ok
	if m.inTheWay(h, owner, file, from, to, how) {
		want = LockConflict
	}
	d, s := promptOrNot(func(try bool) (*Denied, Verdict) {
		return m.m.HostLock(&LockArgs{
			Host: c, OwnerName: fmt.Appendf(nil, "owner %d", owner), Ref: Ref{Client: c, Key: m.files[file]},
			Offset: offset, Length: length, Write: how == 2, Claimer: m.claimer(), Try: try,
		})
	})
	if s != want || (d != nil) != (s == LockConflict) {
		t.Fatalf("a host's LOCK: %v %v, not %v", s, d, want)
	}
	if s != ok {
		return
	}
	if h.locks == nil {
		h.locks = map[[2]int]*[cells]int{}
	}
	key := [2]int{file, owner}
	if h.locks[key] == nil {
		h.locks[key] = &[cells]int{}
	}
	for cell := from; cell <= to; cell++ {
		h.locks[key][cell] = how
	}
}

func (m *model) hostTest(t *rapid.T) {
	h := &m.hosts[rapid.IntRange(0, len(m.hosts)-1).Draw(t, "host")]
	owner := rapid.IntRange(0, 2).Draw(t, "owner")
	file := rapid.IntRange(0, len(m.files)-1).Draw(t, "file")
	how := rapid.IntRange(1, 2).Draw(t, "how")
	from, to, offset, length := span(t)
	_, s := m.m.HostTest(m.m.FindHost(m.hostName(h), hostAddress), fmt.Appendf(nil, "owner %d", owner), m.files[file],
		offset, length, how == 2, m.claimer(), nil)
	if want := m.inTheWay(h, owner, file, from, to, how); (s == LockConflict) != want {
		t.Fatalf("a host's TEST: %v", s)
	}
}

func (m *model) hostUnlock(t *rapid.T) {
	h := &m.hosts[rapid.IntRange(0, len(m.hosts)-1).Draw(t, "host")]
	owner := rapid.IntRange(0, 2).Draw(t, "owner")
	file := rapid.IntRange(0, len(m.files)-1).Draw(t, "file")
	from, to, offset, length := span(t)
	m.unlockHost(t, h, owner, file, offset, length)
	if locked := h.locks[[2]int{file, owner}]; locked != nil {
		for cell := from; cell <= to; cell++ {
			locked[cell] = 0
		}
	}
}

func (m *model) unlockHost(t *rapid.T, h *modelHost, owner, file int, offset, length uint64) {
	c := m.m.FindHost(m.hostName(h), hostAddress)
	if c == nil {
		return
	}
	_, s := promptOrNot(func(try bool) (any, Verdict) {
		return nil, m.m.HostUnlock(&HostRange{
			Ref: Ref{Client: c, Key: m.files[file]}, Owner: fmt.Appendf(nil, "owner %d", owner), Offset: offset, Length: length,
			Claimer: m.claimer(), Try: try,
		}, nil)
	})
	if s != ok {
		t.Fatal(s)
	}
}

func (m *model) hostRestarts(t *rapid.T) {
	h := &m.hosts[rapid.IntRange(0, len(m.hosts)-1).Draw(t, "host")]
	if c := m.m.FindHost(m.hostName(h), hostAddress); c != nil {
		m.m.ForgetHost(c)
	}
	h.locks = nil
}

// unlockAll ends the locks of h one by one.
func (h *modelHost) unlockAll(t *rapid.T, m *model) {
	for key := range h.locks {
		m.unlockHost(t, h, key[1], key[0], 0, lastOffset)
	}
	h.locks = nil
	if c := m.m.FindHost(m.hostName(h), hostAddress); c != nil && m.m.holdsAny(c) {
		t.Fatal("a host that has unlocked everything holds something")
	}
}

func (m *Manager) holdsAny(c *Client) bool {
	g := m.acquire()
	defer g.release()
	return g.holds(c)
}
