package state

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
)

// A former is a client, of one of the kinds of clients, that holds state and reclaims it after a restart.
type former struct {
	t    *testing.T
	m    *Manager
	c    *Client
	open StateID
}

// formerOf returns the client of a kind, perhaps back after a restart.
func formerOf(t *testing.T, m *Manager, kind ClientKind) *former {
	t.Helper()
	h := &former{t: t, m: m}
	switch kind {
	case Minor0:
		h.c = v40(t, m, me())
	case Sessions:
		h.c = confirmed(t, m, me())
	case Host:
		h.c = newHost(t, m, "host")
	}
	return h
}

// opens opens a file, as a share if the client is a host.
func (h *former) opens(deny Access, claimed bool) Verdict {
	a := OpenArgs{Client: h.c, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessBoth, Deny: deny, Claimed: claimed}
	if h.c.isHost() {
		return h.m.HostShare(&a)
	}
	switch v, first := h.m.MayHold(h.c, KindOpen, deny, claimed); {
	case v != ok:
		return v
	case first:
		if v := h.m.Record(h.c, KindOpen, deny, nil); v != ok {
			return v
		}
	}
	o, v := h.m.Open(&a)
	if h.open = o.ID; v == ok && o.Confirm {
		h.open, v = h.m.ConfirmOpen(&Ref{ID: o.ID, Key: fileKey(1)})
	}
	return v
}

// locks locks a byte of the file, which is open, or held by a host.
func (h *former) locks(claimed bool) Verdict {
	a := LockArgs{Ref: Ref{Key: fileKey(1)}, New: true, OwnerName: []byte("o"), Length: 1, Write: true, Claimed: claimed}
	if h.c.isHost() {
		a.Host = h.c
		_, v := h.m.HostLock(&a)
		return v
	}
	a.Ref.ID = h.open
	if h.c.Kind != Minor0 {
		a.Ref.Client = h.c
	}
	_, _, v := h.m.Lock(&a)
	return v
}

func (h *former) completes() {
	if h.c.completes() {
		is(h.t, "RECLAIM_COMPLETE", h.m.ReclaimComplete(h.c, nil), ok)
	}
}

// Over two restarts, a client of each kind reclaims exactly the kinds of state that it held, and a new client waits only
// for what it may reclaim: for nothing when the client has said that it has reclaimed all.
func TestRecordsKnowKindsOverRestarts(t *testing.T) {
	for _, kind := range []ClientKind{Minor0, Sessions, Host} {
		for _, held := range []struct {
			name  string
			deny  Access
			locks bool
		}{{"an open", 0, false}, {"an open that denies", AccessWrite, false}, {"a lock", 0, true}, {"both", AccessWrite, true}} {
			if kind == Host && !held.locks && held.deny == 0 {
				continue // a share that denies nothing is held as any other
			}
			t.Run(fmt.Sprint(kind, " ", held.name), func(t *testing.T) {
				again := func(t *testing.T, m *Manager) {
					if !m.InGrace() {
						t.Fatal("there is no grace period")
					}
					is(t, "a new lock goes on", m.GoesOn(KindLock, 0), !held.locks)
					is(t, "a new open goes on", m.GoesOn(KindOpen, 0), held.deny == 0)
					is(t, "a new open that denies goes on", m.GoesOn(KindOpen, AccessRead), false)
					stranger, v := m.HostOf([]byte("stranger"), netip.MustParseAddr("10.0.0.9"), netip.Addr{}, nil)
					is(t, "a stranger", v, ok)
					want := ok
					if held.locks {
						want = InGracePeriod
					}
					is(t, "its lock", hostLock(m, stranger, "o", fileKey(2), true, false), want)
					m.ForgetHost(stranger)
					synctest.Wait() // the sweep removes its record
					h := formerOf(t, m, kind)
					never := neverUnless(held.deny != 0)
					is(t, "the claim of an open", h.opens(held.deny, true), ok)
					if held.deny == 0 {
						is(t, "the claim of a deny mode", h.opens(AccessWrite, true), never)
					}
					is(t, "the claim of a lock", h.locks(true), neverUnless(held.locks))
					h.completes()
					if kind == Sessions {
						is(t, "afterwards a new lock goes on", m.GoesOn(KindLock, 0), true)
						is(t, "afterwards a new open goes on", m.GoesOn(KindOpen, 0), true)
					}
				}
				lives(t, &disk{}, func(t *testing.T, m *Manager) {
					h := formerOf(t, m, kind)
					h.completes()
					is(t, "OPEN", h.opens(held.deny, false), ok)
					if held.locks {
						is(t, "LOCK", h.locks(false), ok)
					}
				}, again, again)
			})
		}
	}
}

func neverUnless(held bool) Verdict {
	if held {
		return ok
	}
	return NeverHeld
}

// The first lock of a client waits until its record says so, and no later one does. While the record cannot be written,
// there is no lock.
func TestFirstLockIsRecorded(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		h := formerOf(t, m, Sessions)
		h.completes()
		is(t, "OPEN", h.opens(0, false), ok)
		d.breakDown(true)
		is(t, "LOCK", h.locks(false), TryLater)
		is(t, "locks", m.Usage().Locks, 0)
		pass(2 * afterFailure)
		d.breakDown(false)
		var l Later
		a := LockArgs{Ref: Ref{ID: h.open, Client: h.c, Key: fileKey(1)}, New: true, OwnerName: []byte("o"), Length: 1, Later: &l}
		_, _, v := m.Lock(&a)
		is(t, "LOCK that does not wait", v, AfterDisk)
		again := make(chan Verdict)
		l.Await(func() {
			_, _, v := m.Lock(&a)
			again <- v
		})
		is(t, "LOCK after the disk", <-again, ok)
		d.breakDown(true)
		a.OwnerName = []byte("another")
		a.Offset = 1
		_, _, v = m.Lock(&a)
		is(t, "another LOCK", v, ok)
	})
}

// A client that takes a lock by a record from before, of its last incarnation or of the last run of the server, has it in
// the records that are written later.
func TestRecordKeepsWhatAnEarlierOneCovered(t *testing.T) {
	before := func(t *testing.T, m *Manager, kind ClientKind) *former {
		h := formerOf(t, m, kind)
		is(t, "OPEN before", h.opens(0, false), ok)
		is(t, "LOCK before", h.locks(false), ok)
		return h
	}
	// again begins a run of the server in which the client then takes its lock anew, and f makes the server write a record.
	for name, again := range map[string]func(t *testing.T, m *Manager, kind ClientKind) *former{
		"another incarnation": func(t *testing.T, m *Manager, kind ClientKind) *former {
			before(t, m, kind)
			h := &former{t: t, m: m, c: v40(t, m, identity("client", 2, "me"))}
			is(t, "OPEN", h.opens(0, false), ok)
			return h
		},
		"another run": func(t *testing.T, m *Manager, kind ClientKind) *former {
			h := formerOf(t, m, kind)
			is(t, "the claim of an open", h.opens(0, true), ok)
			pass(3 * leaseTime)
			m.Renew(h.c)
			return h
		},
	} {
		for writes, f := range map[string]func(t *testing.T, h *former){
			"an open that denies": func(t *testing.T, h *former) {
				open(t, h.m, h.c, "o", fileKey(2), AccessRead, AccessWrite)
			},
			"a release": func(t *testing.T, h *former) {
				other, v := h.m.Open(&OpenArgs{Client: h.c, OwnerName: []byte("o"), Key: fileKey(2), Access: AccessRead})
				is(t, "another OPEN", v, ok)
				key := fileKey(2)
				is(t, "opens that are taken", h.m.Release(Which{Client: h.c, Key: &key}), 1)
				h.m.CloseOpen(&Ref{ID: other.ID, Key: key}, false) // so it knows, and may reclaim the rest
				synctest.Wait()
			},
		} {
			t.Run(name+", "+writes, func(t *testing.T) {
				var all []life
				if name == "another run" {
					all = append(all, func(t *testing.T, m *Manager) { before(t, m, Minor0) })
				}
				all = append(all, func(t *testing.T, m *Manager) {
					h := again(t, m, Minor0)
					is(t, "LOCK", h.locks(false), ok)
					f(t, h)
				}, func(t *testing.T, m *Manager) {
					is(t, "a new lock goes on", m.GoesOn(KindLock, 0), false)
					h := &former{t: t, m: m, c: v40(t, m, identity("client", 2, "me"))}
					is(t, "the claim of an open", h.opens(0, true), ok)
					is(t, "the claim of a lock", h.locks(true), ok)
				})
				lives(t, &disk{}, all...)
			})
		}
	}
}

// While a record is being written that lists fewer kinds of state than the one before, the client gets none of the others
// by that one.
func TestNoLockByARecordThatIsBeingReplaced(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		h := formerOf(t, m, Minor0)
		is(t, "OPEN before", h.opens(0, false), ok)
		is(t, "LOCK before", h.locks(false), ok)
		h = &former{t: t, m: m, c: v40(t, m, identity("client", 2, "me"))}
		is(t, "OPEN", h.opens(0, false), ok)
		writes, write := make(chan struct{}), make(chan struct{})
		d.slow = func() {
			writes <- struct{}{}
			<-write
		}
		denies := make(chan Verdict)
		go func() { denies <- m.Record(h.c, KindOpen, AccessWrite, nil) }()
		<-writes
		var l Later
		_, _, v := m.Lock(&LockArgs{Ref: Ref{ID: h.open, Key: fileKey(1)}, New: true, OwnerName: []byte("o"), Length: 1, Later: &l})
		is(t, "LOCK beside the write", v, AfterDisk)
		d.slow = nil
		close(write)
		is(t, "the record of a deny mode", <-denies, ok)
		is(t, "LOCK afterwards", h.locks(false), ok)
	}, func(t *testing.T, m *Manager) { is(t, "a new lock goes on", m.GoesOn(KindLock, 0), false) })
}
