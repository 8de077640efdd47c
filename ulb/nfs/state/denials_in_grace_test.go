package state

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// While a client may still reclaim an open with a deny mode, a caller without an open cannot use
// any file. If the records show that no client had such an open, callers without an open can use
// files during the grace period too (RFC 8881 §8.4.2.1).
func TestUseWithoutAnOpenInGrace(t *testing.T) {
	fs := &directory{}
	key := func(file int) FileKey { return FileKey{fs, fileKey(file).Handle} }
	for kind := range Sessions + 1 {
		introduced := func(t *testing.T, m *Manager) *Client {
			if kind == 0 {
				return v40(t, m, me())
			}
			return confirmed(t, m, me())
		}
		tries := func(t *testing.T, m *Manager, c *Client, file int, deny Access, claimed bool) (o Opening, s Verdict) {
			t.Helper()
			var first bool
			if s, first = m.MayHold(c, KindOpen, deny, claimed); s != ok {
				return o, s
			}
			if first {
				if s := m.Record(c, KindOpen, deny, nil); s != ok {
					return o, delay
				}
			}
			o, s = m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: key(file), Access: AccessBoth, Deny: deny, Claimed: claimed})
			if s == ok && o.Confirm {
				_, s = m.ConfirmOpen(&Ref{ID: o.ID, Key: key(file)})
			}
			return o, s
		}
		completes := func(t *testing.T, m *Manager, c *Client) {
			t.Helper()
			if kind > 0 {
				s := m.ReclaimComplete(c, nil)
				is(t, "RECLAIM_COMPLETE", s, ok)
			}
		}
		use := func(t *testing.T, m *Manager, file int, want Answer) {
			t.Helper()
			for _, u := range [...]Use{UseRead, UseWrite, UseRemove} {
				if a := anonymously(m, fs, key(file), u); a != want {
					t.Errorf("minor version %d, use %d of file %d: answer %d, not %d", kind, u, file, a, want)
				}
			}
			for _, u := range [...]Use{UseReadAnyway, UseAttributes, UseLink} {
				if a := anonymously(m, fs, key(file), u); a != Yes {
					t.Errorf("minor version %d, use %d of file %d: answer %d, not Yes", kind, u, file, a)
				}
			}
			// The Manager looks up a name only if its answer depends on the file.
			fs.leadsTo, fs.lookups = key(file).Handle, 0
			a := asks(m, &Intent{Use: UseWrite, FS: fs, Name: []byte("name"), Op: &vfs.Op{Try: true}, Kind: Host})
			if a != want || fs.lookups > 0 != (want != Yes) && file != 2 {
				t.Errorf("a write by name: answer %d after %d lookups", a, fs.lookups)
			}
			fs.lookups = 0
			a = asks(m, &Intent{Use: UseRename, FS: fs, Name: []byte("name"), Op: &vfs.Op{Try: true}, Kind: Host})
			if a != Yes || fs.lookups > 0 {
				t.Errorf("a rename: answer %d after %d lookups", a, fs.lookups)
			}
		}
		opens := func(deny Access) life {
			return func(t *testing.T, m *Manager) {
				c := introduced(t, m)
				completes(t, m, c)
				_, s := tries(t, m, c, 1, 0, false)
				is(t, "OPEN", s, ok)
				if deny != 0 {
					_, s := tries(t, m, c, 2, deny, false)
					is(t, "OPEN with a deny mode", s, ok)
				}
			}
		}
		ends := func(t *testing.T, m *Manager, c *Client) {
			completes(t, m, c)
			if kind == 0 {
				pass(leaseTime + 1)
			}
			pass(1)
			if m.InGrace() {
				t.Error("grace goes on")
			}
		}
		lives(t, &disk{}, opens(0), func(t *testing.T, m *Manager) {
			use(t, m, 1, Yes)
			c := introduced(t, m)
			_, s := tries(t, m, c, 1, AccessWrite, true)
			is(t, "a claim of what the client never held", s, NeverHeld)
			_, s = tries(t, m, c, 1, 0, true)
			is(t, "its claim", s, ok)
			use(t, m, 1, Yes)
		})
		lives(t, &disk{}, opens(AccessBoth), func(t *testing.T, m *Manager) {
			use(t, m, 1, AfterGrace)
			c := introduced(t, m)
			_, s := tries(t, m, c, 2, AccessBoth, true)
			is(t, "its claim", s, ok)
			use(t, m, 1, AfterGrace)
			ends(t, m, c)
			use(t, m, 2, No)
		}, func(t *testing.T, m *Manager) {
			use(t, m, 1, AfterGrace)
			c := introduced(t, m)
			_, s := tries(t, m, c, 1, 0, true)
			is(t, "its claim", s, ok)
			ends(t, m, c)
			use(t, m, 1, Yes)
		}, func(t *testing.T, m *Manager) {
			if kind == 0 {
				use(t, m, 1, AfterGrace) // a client of minor version 0 never reports that it is done
			} else {
				use(t, m, 1, Yes)
			}
		})
		lives(t, &disk{records: map[name]Record{{kind: kind, owner: "client"}: {Kind: kind, Owner: "client", Principal: "me"}}}, func(t *testing.T, m *Manager) {
			use(t, m, 1, AfterGrace) // an earlier version wrote the record
			pass(2 * leaseTime)
			use(t, m, 1, Yes)
		})
		d := &disk{}
		lives(t, d, func(t *testing.T, m *Manager) {
			opens(0)(t, m)
			c := m.clients.byName[identity("client", 1, "me").name(kind)].confirmed
			d.breakDown(true)
			_, s := tries(t, m, c, 1, 0, false)
			is(t, "OPEN that the record covers", s, ok)
			_, s = tries(t, m, c, 2, AccessWrite, false)
			is(t, "OPEN with a deny mode that is not recorded", s, delay)
			d.breakDown(false)
			_, s = tries(t, m, c, 2, AccessWrite, false)
			is(t, "OPEN with a deny mode", s, ok)
		}, func(t *testing.T, m *Manager) {
			use(t, m, 1, AfterGrace)
		})
	}
}

// A directory is a file system in which each name leads to one file.
type directory struct {
	vfs.FileSystem
	leadsTo vfs.Handle
	lookups int
}

func (d *directory) Lookup(*vfs.Op, vfs.Handle, []byte, *vfs.Attr) (vfs.Object, error) {
	d.lookups++
	return vfs.Object{Handle: d.leadsTo}, nil
}

// After a restart, new state waits only for a client that held what conflicts with it, and may reclaim it or not know yet
// that it has lost it: a lock for locks, an open without a deny mode for deny modes, and one with a deny mode for any open.
func TestNewStateInGraceWaitsForItsKindAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		held Held
		lost bool
		// open and lock are the verdicts for an open without a deny mode, and for a lock.
		open, lock Verdict
	}{
		{"opens", HeldOpens | HeldApart, false, ok, ok},
		{"locks", HeldOpens | HeldLocks | HeldApart, false, ok, InGracePeriod},
		{"opens, as an earlier version wrote", HeldOpens, false, ok, InGracePeriod},
		{"a deny mode", HeldOpens | HeldDenials | HeldApart, false, InGracePeriod, ok},
		{"not known", 0, false, InGracePeriod, InGracePeriod},
		{"opens, but lost some", HeldOpens | HeldApart, true, ok, ok},
		{"locks, but lost some", HeldOpens | HeldLocks | HeldApart, true, ok, InGracePeriod},
		{"a deny mode, but lost some", HeldOpens | HeldDenials | HeldApart, true, InGracePeriod, ok},
	} {
		for _, kind := range []ClientKind{Minor0, Sessions, Host} {
			former := Record{Kind: kind, Owner: "former", Principal: "me", Held: c.held, Revoked: c.lost}
			lives(t, &disk{records: map[name]Record{{kind: kind, owner: "former"}: former}}, func(t *testing.T, m *Manager) {
				if !m.InGrace() {
					t.Fatal("there is no grace period")
				}
				other := complete(t, m, identity("other", 1, "me"))
				for _, x := range []struct {
					deny Access
					want Verdict
				}{{0, c.open}, {AccessRead, InGracePeriod}, {AccessWrite, InGracePeriod}} {
					_, first := m.MayHold(other, KindOpen, x.deny, false)
					if first {
						m.Record(other, KindOpen, x.deny, nil)
					}
					o, s := m.Open(&OpenArgs{Client: other, OwnerName: []byte("owner"), Key: fileKey(1), Access: AccessBoth, Deny: x.deny})
					is(t, fmt.Sprintf("%s held by a client of kind %d: OPEN with deny bits %d", c.name, kind, x.deny), s, x.want)
					if s != ok {
						continue
					}
					_, _, s = m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: other, Key: fileKey(1)}, New: true, OwnerName: []byte("locker"), Length: 1})
					is(t, c.name+": LOCK", s, c.lock)
				}
				host := newHost(t, m, "host")
				is(t, c.name+": LOCK of a host", hostLock(m, host, "o", fileKey(2), true, false), c.lock)
				is(t, c.name+": may others lock", m.GoesOn(KindLock, 0), c.lock == ok)
				_, s := m.TestLock(other, []byte("locker"), fileKey(3), 0, 1, true, nil, nil)
				is(t, c.name+": LOCKT", s, c.lock)
			})
		}
	}
}
