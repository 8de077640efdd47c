package state

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A restartModel holds, over several runs of a server, the files that each client believes to have
// open with a deny mode against all other clients.
type restartModel struct {
	disk    *gatedDisk
	m       *Manager
	life    int
	begun   time.Time // when the present run of the server began
	clients []*restartClient

	mu  sync.Mutex
	bad string // the first violated rule
	// granted has the clients that were given each file in the present step. unclear is true if the
	// model does not know who of them was given it last: the history then ends without a judgement.
	granted [restartFiles][]*restartClient
	unclear bool
	// revoking is true while the server revokes what clients hold by an export. Each file has its own. No other
	// request runs meanwhile, as no call uses an export that is revoked.
	revoking bool
}

// restartClient is a client, over all its incarnations and all runs of the server.
type restartClient struct {
	name     string
	kind     ClientKind
	verifier byte
	next, c  *Client // the unconfirmed incarnation, and the confirmed one
	confirm  Verifier
	life     int // the run of the server in which c was confirmed
	complete bool
	busy     bool
	heard    time.Time // when the client last got an answer from the server
	holds    map[int]*restartHold
	revoked  bool // since its last reboot it has lost a file to a revocation, and so perhaps every claim
	// marked is true if the server may ever have revoked a file of it: a record from another place may still say so.
	marked bool
	// from is where the client calls from, sent where it called from when it got next, and home when it got c.
	from, sent, home source
}

// A restartHold is a file that a client believes to have open. stale is true if another client got
// the file since. late is true if the client came back after its lease had run out and has not
// reclaimed the file yet. revoked is true if the server has revoked it.
type restartHold struct {
	id          StateID
	life        int     // the run in which the open was granted or reclaimed
	by          *Client // the incarnation to which it was granted
	stale, late bool
	revoked     bool
}

const restartFiles = 2

func (r *restartModel) fault(format string, args ...any) {
	if r.bad == "" && !r.unclear {
		r.bad = fmt.Sprintf(format, args...)
	}
}

func (r *restartModel) identity(c *restartClient) *Identity {
	id := identity(c.name, c.verifier, "me")
	id.Address, id.Privileged = c.from.address, c.from.privileged
	return id
}

// entitled reports whether no other client may get the client's files: the last answer of the
// server is less than a lease old.
func (c *restartClient) entitled() bool { return time.Since(c.heard) < leaseTime }

// grant notes that c was given a file. If the disk continues, several waiting requests continue at
// the same time, and the model may learn of their grants in another order than the Manager made
// them. That order matters if a client's lease ran out while its request waited: another client may
// be given the file after it.
func (r *restartModel) grant(c *restartClient, file int) {
	r.granted[file] = append(r.granted[file], c)
	if len(r.granted[file]) > 1 && slices.ContainsFunc(r.granted[file], func(c *restartClient) bool { return !c.entitled() }) {
		r.unclear = true
	}
}

// inTime reports whether the server must still accept reclaims of c, which came back within its
// lease: in the first lease time of the server's run, and otherwise as long as no time has passed
// since c was confirmed. If the client has to wait for the disk, the grace period may end meanwhile.
func (r *restartModel) inTime(c *restartClient) bool {
	return time.Since(c.heard) == 0 || time.Since(r.begun) < leaseTime
}

// do runs a request that may wait for the disk, on a goroutine of its own. The client sends no
// other request meanwhile.
func (r *restartModel) do(c *restartClient, f func(m *Manager, life int)) {
	if c.busy || r.revoking {
		return
	}
	c.busy = true
	m, life := r.m, r.life
	go func() {
		f(m, life)
		r.mu.Lock()
		defer r.mu.Unlock()
		c.busy = false
	}()
	synctest.Wait()
}

// settle runs f, which handles the result of a request, if the run of the server that executed the
// request has not ended.
func (r *restartModel) settle(life int, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if life == r.life {
		f()
	}
}

// introduce sends EXCHANGE_ID or SETCLIENTID.
func (r *restartModel) introduce(c *restartClient) {
	r.do(c, func(m *Manager, life int) {
		var expired *Client
		c.sent = c.from
		if c.kind == 0 {
			x := m.SetClientID(r.identity(c), Callback{})
			c.next, c.confirm, expired = x.Client, x.Confirm, x.Expired
		} else {
			x := m.ExchangeID(r.identity(c), false)
			c.next, expired = x.Client, x.Expired
		}
		if expired != nil {
			m.Evict(expired)
		}
	})
}

// come confirms the client and reclaims all its files.
func (r *restartModel) come(c *restartClient) {
	if c.next == nil {
		return
	}
	r.do(c, func(m *Manager, life int) {
		next := c.next
		s := ok
		if c.kind == 0 {
			s = m.ConfirmClientID(next.ID, c.confirm, "me")
		} else {
			s = m.Confirm(next)
		}
		if s != ok || next.Dying() {
			if s != delay {
				c.next = nil
			}
			return
		}
		// The server cannot know that the records of two places are those of one client, and that a file which it
		// revoked at one place is not to be reclaimed at the other.
		entitled, unclear := c.entitled(), c.sent != c.home && c.marked
		was := c.complete
		r.settle(life, func() {
			if c.c != next {
				c.home = c.sent
			}
			c.c, c.life, c.complete, c.heard = next, life, false, time.Now()
			for _, h := range c.holds {
				h.late = h.late || !entitled
			}
		})
		m.Renew(next)
		if c.kind == 0 && len(c.holds) > 0 {
			if m.Record(next, KindOpen, AccessBoth, nil) != ok {
				return
			}
		}
		for file := range restartFiles {
			h := c.holds[file]
			if h == nil || h.by == next {
				continue
			}
			o, s := m.Open(&OpenArgs{Client: next, OwnerName: []byte("o"), Key: fileKey(file), Export: uint32(file), Access: AccessBoth, Deny: AccessBoth, Claimed: true})
			lost := s == noGrace || s == NeverHeld
			r.settle(life, func() {
				if s == ok {
					r.grant(c, file)
				}
				switch {
				case s == ok && h.stale && !unclear:
					r.fault("%s is given file %d, which others had since", c.name, file)
				case s == ok:
					h.id, h.life, h.by, h.late, h.revoked = o.ID, life, next, false, false
				case lost && !c.revoked && !unclear && entitled && r.inTime(c) && was && !h.stale && !h.late:
					r.fault("%s loses file %d in time: %v", c.name, file, s)
				}
				if lost || s == OpenConflict {
					delete(c.holds, file)
				}
			})
		}
		if c.kind > 0 {
			if s := m.ReclaimComplete(next, nil); s != ok && s != AlreadyComplete {
				return
			}
		}
		r.settle(life, func() { c.complete = true })
	})
}

// works reports whether the client can send requests. It renews the lease, as each request does.
func (r *restartModel) works(c *restartClient) bool {
	if c.c == nil || c.busy || c.life != r.life || !c.complete {
		return false
	}
	if r.m.Client(c.c.ID) != c.c {
		for file, h := range c.holds {
			if h.life == r.life && !h.stale && c.entitled() {
				r.fault("%s is gone with file %d within its lease", c.name, file)
			}
			if h.life == r.life {
				delete(c.holds, file)
			}
		}
		c.c = nil
		return false
	}
	if c.c.Dying() {
		return false
	}
	r.m.Renew(c.c)
	c.heard = time.Now()
	return true
}

func (r *restartModel) open(c *restartClient, file int) {
	if !r.works(c) || c.holds[file] != nil {
		return
	}
	r.do(c, func(m *Manager, life int) {
		if _, first := m.MayHold(c.c, KindOpen, AccessBoth, false); first {
			if m.Record(c.c, KindOpen, AccessBoth, nil) != ok {
				return
			}
		}
		o, s := m.Open(&OpenArgs{Client: c.c, OwnerName: []byte("o"), Key: fileKey(file), Export: uint32(file), Access: AccessBoth, Deny: AccessBoth})
		if s != ok {
			return
		}
		if o.Confirm {
			if o.ID, s = m.ConfirmOpen(&Ref{ID: o.ID, Key: fileKey(file), Export: uint32(file)}); s != ok {
				return
			}
		}
		r.settle(life, func() {
			r.grant(c, file)
			c.holds[file] = &restartHold{id: o.ID, life: life, by: c.c}
			for _, other := range r.clients {
				if h := other.holds[file]; other != c && h != nil {
					if other.entitled() && !h.stale && !h.late && !h.revoked {
						r.fault("%s and %s are both given file %d", other.name, c.name, file)
					}
					h.stale = true
				}
			}
		})
	})
}

func (r *restartModel) close(c *restartClient, file int) {
	h := c.holds[file]
	if h == nil || h.life != r.life || r.revoking || !r.works(c) || c.holds[file] == nil {
		return
	}
	ref := &Ref{ID: h.id, Key: fileKey(file), Export: uint32(file)}
	if c.kind > 0 {
		ref.Client = c.c
	}
	_, s := r.m.CloseOpen(ref, false)
	if (s == ok) == h.revoked && !h.stale || h.revoked && s == adminRevoked && c.kind > 0 && r.m.FreeStateID(&h.id, c.c) != ok {
		r.fault("CLOSE by %s: %v, revoked: %v", c.name, s, h.revoked)
	}
	delete(c.holds, file)
}

// revoke ends the export of a file, and begins it anew.
func (r *restartModel) revoke(file int) {
	if r.revoking || slices.ContainsFunc(r.clients, func(c *restartClient) bool { return c.busy }) {
		return
	}
	for _, c := range r.clients {
		c.marked = true
		if h := c.holds[file]; h != nil && h.life == r.life {
			h.revoked, c.revoked = true, true
		}
	}
	r.revoking = true
	m := r.m
	go func() {
		m.RevokeExport(fileKey(file).Domain, uint32(file))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.revoking = false
	}()
	synctest.Wait()
}

// reboot restarts the client, which forgets its files.
func (c *restartClient) reboot() {
	if !c.busy {
		c.verifier++
		c.c, c.next, c.complete, c.revoked = nil, nil, false, false
		clear(c.holds)
	}
}

// move gives the client another address, or another rank of port. With the next move it may come back.
func (c *restartClient) move(what int) {
	if c.busy {
		return
	}
	if what > 0 {
		c.from.privileged = !c.from.privileged
	} else if c.from.address == here {
		c.from.address = there
	} else {
		c.from.address = here
	}
}

func (r *restartModel) begin() {
	r.disk.mu.Lock()
	r.disk.life++
	r.life, r.begun = r.disk.life, time.Now()
	r.disk.mu.Unlock()
	var err error
	if r.m, err = New(Config{Records: &lifeOfDisk{r.disk, r.life}}); err != nil {
		panic(err)
	}
}

// letGo ends the delay of the disk: requests that wait for it continue.
func (r *restartModel) letGo() {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if r.disk.slow {
		close(r.disk.gate)
		r.disk.slow = false
	}
}

// kill ends a run of the server. Changes that wait for the disk are lost.
func (r *restartModel) kill() {
	r.disk.mu.Lock()
	r.disk.life++
	r.disk.mu.Unlock()
	r.mu.Lock()
	r.life = 0
	r.mu.Unlock()
	r.letGo()
	r.m.Close()
	synctest.Wait()
	for _, c := range r.clients {
		c.c, c.next = nil, nil
	}
}

// A restartStep is one step of a history: its kind and, if the kind needs them, a client and a
// file.
type restartStep struct{ What, Client, File, Quarters int }

// restartSteps are the kinds of restartStep. Opens and the registration of a client occur several
// times, so that they are drawn most often.
var restartSteps = []func(r *restartModel, c *restartClient, s restartStep){
	func(r *restartModel, c *restartClient, s restartStep) { r.open(c, s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { r.open(c, s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { r.introduce(c); r.come(c) },
	func(r *restartModel, c *restartClient, s restartStep) { r.introduce(c) },
	func(r *restartModel, c *restartClient, s restartStep) { r.come(c) },
	func(r *restartModel, c *restartClient, s restartStep) {
		for _, c := range r.clients {
			r.introduce(c)
			r.come(c)
		}
	},
	func(r *restartModel, c *restartClient, s restartStep) { r.close(c, s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { r.works(c) },
	func(r *restartModel, c *restartClient, s restartStep) { c.reboot() },
	func(r *restartModel, c *restartClient, s restartStep) {
		pass(time.Duration(s.Quarters) * leaseTime / 4)
	},
	func(r *restartModel, c *restartClient, s restartStep) { r.disk.slowDown() },
	func(r *restartModel, c *restartClient, s restartStep) { r.letGo(); synctest.Wait() },
	func(r *restartModel, c *restartClient, s restartStep) { r.disk.breakDown(s.File == 0) },
	func(r *restartModel, c *restartClient, s restartStep) { r.kill(); r.begin() },
	// A client restarts while another client wants its files and the disk is slow.
	func(r *restartModel, c *restartClient, s restartStep) {
		c.reboot()
		pass(time.Duration(s.Quarters) * leaseTime / 4)
		r.introduce(c)
		r.disk.slowDown()
		for _, other := range r.clients {
			r.open(other, s.File)
		}
		r.come(c)
	},
	func(r *restartModel, c *restartClient, s restartStep) { r.revoke(s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { r.revoke(s.File); r.close(c, s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { c.move(s.File) },
	func(r *restartModel, c *restartClient, s restartStep) { c.move(s.File); r.introduce(c); r.come(c) },
}

// In random histories, clients move, clients and the server restart, exports end, and the disk is slow or fails.
// The Manager grants no file to a client while another client holds the file within its lease. No client
// reclaims a file that another client got meanwhile, also after a revocation. No client that reclaims in time
// is refused, unless something of it was revoked, or of any client before it moved.
func TestRestartsModel(t *testing.T) {
	step := rapid.Custom(func(t *rapid.T) restartStep {
		return restartStep{
			rapid.IntRange(0, len(restartSteps)-1).Draw(t, "what"), rapid.IntRange(0, 2).Draw(t, "client"),
			rapid.IntRange(0, restartFiles-1).Draw(t, "file"), rapid.SampledFrom([]int{1, 3, 5, 9}).Draw(t, "quarters"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(step, 50, 300).Draw(rt, "steps")
		bad := ""
		synctest.Test(t, func(*testing.T) { bad = runRestarts(steps) })
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}

// runRestarts does the steps one after the other. It returns the first violated rule, or "".
func runRestarts(steps []restartStep) string {
	r := &restartModel{disk: &gatedDisk{}}
	for i := range 3 {
		r.clients = append(r.clients, &restartClient{name: fmt.Sprint("client ", i), kind: ClientKind(min(i, 1)), holds: map[int]*restartHold{}, from: source{here, true}})
	}
	r.begin()
	for _, s := range steps {
		r.granted = [restartFiles][]*restartClient{}
		restartSteps[s.What](r, r.clients[s.Client], s)
		if r.bad != "" || r.unclear {
			break
		}
	}
	r.disk.breakDown(false)
	r.kill()
	return r.bad
}

// These histories lost a client's state in earlier versions: an eviction removed the record of the
// next incarnation, or the next incarnation inherited a record that was about to be removed.
func TestRestartsThatLostSomething(t *testing.T) {
	for _, steps := range [][]restartStep{
		{{14, 0, 1, 1}, {0, 0, 0, 3}, {5, 2, 0, 5}, {11, 0, 0, 1}, {9, 2, 0, 1}, {10, 2, 1, 5}, {7, 1, 0, 9}, {14, 0, 0, 9}, {11, 2, 1, 1}, {14, 2, 1, 1}, {13, 2, 1, 9}, {5, 2, 0, 5}},
		{{2, 0, 0, 3}, {2, 1, 1, 1}, {14, 2, 0, 9}, {11, 1, 0, 1}, {1, 1, 1, 9}, {14, 1, 1, 5}, {11, 2, 0, 3}, {8, 0, 1, 1}, {5, 1, 0, 1}, {0, 1, 0, 9}, {13, 2, 1, 1}, {2, 1, 1, 5}},
		{{5, 0, 0, 9}, {1, 2, 0, 1}, {9, 2, 0, 3}, {0, 1, 1, 9}, {14, 2, 0, 3}, {11, 0, 0, 9}, {6, 1, 1, 1}, {1, 2, 1, 9}, {13, 1, 1, 5}, {5, 2, 1, 9}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if bad := runRestarts(steps); bad != "" {
				t.Error(bad)
			}
		})
	}
}

// This history gave away a revoked file before the revocation was on the disk: the client's lease ran out, and
// it held nothing else, so that its record was to be removed, which failed as well.
func TestRevocationOfAClientThatIsForgotten(t *testing.T) {
	steps := []restartStep{{2, 0, 0, 1}, {0, 0, 0, 1}, {2, 2, 0, 1}, {0, 2, 1, 1}, {12, 0, 0, 1}, {15, 0, 0, 1}, {9, 0, 0, 5}, {0, 2, 0, 1}, {13, 0, 0, 1}, {2, 0, 0, 1}}
	synctest.Test(t, func(t *testing.T) {
		if bad := runRestarts(steps); bad != "" {
			t.Error(bad)
		}
	})
}
