package state

import (
	"net/netip"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// hostIdle is how long the server remembers a host, with its record, after its last lock. Even if it is short of room, it
// remembers a host for hostBusy: the host may be in the middle of its first request.
const (
	hostIdle = time.Hour
	hostBusy = 10 * time.Second
)

// hostName returns the Client.Owner of a host: its address and the name that it gives itself. The name alone is
// no key, because anyone may send it. The address is the whole one: the hosts of a network may have the same name.
func hostName(caller []byte, from netip.Addr) string {
	return from.Unmap().String() + " " + string(caller)
}

// isAt reports whether the host c comes from this address.
func (c *Client) isAt(from netip.Addr) bool {
	address, _, _ := strings.Cut(string(c.Owner), " ")
	return address == from.Unmap().String()
}

// hostIdentity returns the Identity of a host. Its port does not matter: the name has the address already.
func hostIdentity(caller []byte, from netip.Addr) *Identity {
	return &Identity{Owner: []byte(hostName(caller, from)), Caller: Caller{Address: from}}
}

// FindHost returns the host that calls itself by this name and comes from this address, or nil.
func (m *Manager) FindHost(caller []byte, from netip.Addr) *Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients.byName[hostIdentity(caller, from).name(Host)].confirmed
}

// HostOf is FindHost, but makes the host if there is none; local is then the server's address that the host has
// called, and companion belongs to the host. It returns TryLater if the server can have no more clients, or none
// of this address.
func (m *Manager) HostOf(caller []byte, from, local netip.Addr, companion Companion) (*Client, Verdict) {
	p := m.inPieces(nil)
	defer p.end()
	g, id := p.guard, hostIdentity(caller, from)
	if c := g.clients.byName[id.name(Host)].confirmed; c != nil {
		return c, Granted
	}
	id.Principal, id.Companion = hostAddresses(from, local), companion
	c := g.add(Host, id)
	if s := p.confirm(c); s != Granted {
		g.remove(c)
		return nil, s
	}
	o := c.known.origin
	if o.hosts == nil {
		o.hosts = make(map[*Client]struct{})
	}
	o.hosts[c] = struct{}{}
	return c, Granted
}

// hostAddresses returns the Client.Principal of a host: its own address, and the server's address that it has called.
// After a restart the record says to which address the server has to send word, and from which.
func hostAddresses(from, local netip.Addr) string {
	return from.Unmap().String() + " " + local.Unmap().String()
}

// A FormerHost is a host that held locks before the server's restart, and may reclaim them.
type FormerHost struct {
	Name string
	// Address is the host's, and Local the server's address that it has called.
	Address, Local netip.Addr
}

// FormerHosts returns the hosts that have a record from before this start.
func (m *Manager) FormerHosts() (all []FormerHost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.grace.claims {
		if r.Kind != Host {
			continue
		}
		_, called, _ := strings.Cut(r.Owner, " ")
		from, local, _ := strings.Cut(r.Principal, " ")
		h := FormerHost{Name: called}
		h.Local, _ = netip.ParseAddr(local)
		var err error
		if h.Address, err = netip.ParseAddr(from); err == nil {
			all = append(all, h)
		}
	}
	return all
}

// HostsAt returns the hosts of an address.
func (m *Manager) HostsAt(from netip.Addr) (all []*Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.clients.from[clientaddr.Of(from)]; o != nil {
		for c := range o.hosts {
			if c.isAt(from) {
				all = append(all, c)
			}
		}
	}
	return all
}

// ForgetHost ends all locks of a host, and its waiting for locks, because it has restarted. The sweep removes its
// record. The locks end in pieces: what the host asks for meanwhile waits for the last one (see HostLock).
func (m *Manager) ForgetHost(c *Client) { m.forgetHost(c, nil) }

// forgetHost is ForgetHost. It calls between as a piecewise does.
func (m *Manager) forgetHost(c *Client, between func() bool) {
	p := m.inPieces(between)
	defer p.end()
	if c.known.ending.Load() {
		return // it is gone, or another goroutine ends it
	}
	if p.drain(c); !c.known.gone {
		p.remove(c)
		p.forget(c)
	}
}

// hostEnds reports whether the Manager is ending a host, and stores in later, unless it is nil, that the request waits for
// the end. Then the host is another one.
func (m *Manager) hostEnds(c *Client, later *Later) bool {
	if later == nil || !c.known.ending.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.known.gone {
		return false
	}
	*later = Later{m: m, ended: c}
	return true
}

// hostIsIdle reports whether the server no longer remembers a host, which holds nothing and waits for nothing. If
// it is short of room, it remembers only those that have just called.
func (g *guard) hostIsIdle(c *Client, now time.Duration) bool {
	silent := now - time.Duration(c.known.renewed.Load())
	return !g.holds(c) && c.holding.waiters == 0 && g.claimOf(c) == nil && (silent > hostIdle || g.sweeper.lack != nil && silent > hostBusy)
}

// NotifyHosts is NotifyLocks for the locks for which hosts wait. The function takes the lock (Lock), and then tells
// the host.
func (m *Manager) NotifyHosts(f func(LockNotice)) { m.files.notifyHosts.Store(&f) }

// hostOpen returns the open on which the locks of the host a.Host in a file hang. A host opens no files, so the
// Manager makes the open with the first lock or waiter of the host in the file, and ends it with the last one
// (endIdle). The open conflicts with no other one, because the host's reads and writes ask one by one (Ask).
func (g *guard) hostOpen(a *LockArgs) (*State, Verdict) {
	c := a.Host
	if s := g.mayBegin(c); s != Granted {
		return nil, s
	}
	switch s := g.findHostOpen(c, nil, &a.Ref, a.id); {
	case s == nil:
	case s.isRevoked():
		return nil, TryLater // the server still ends its locks
	default:
		return s, Granted
	}
	if s := g.mayHold(c, KindLock, 0, a.Claimed); s != Granted {
		return nil, s
	}
	if !g.isRecorded(c, KindLock, 0, a.Claimed) {
		return nil, TryLater // the host ended during this request
	}
	if g.crowded(c) {
		return nil, g.full(c)
	}
	if s := g.mayOpen(c, a.id, a.room); s != Granted {
		return nil, s
	}
	owner := g.owner(c, nil, false)
	if owner == nil {
		return nil, g.full(c)
	}
	of := g.files.byID[a.id]
	if of == nil {
		of = &file{id: a.id}
		g.files.byID[a.id] = of
	}
	s := &State{Kind: KindOpen, Client: c, Owner: owner, Key: a.Key, Export: a.Export, modes: mode(0, 0)}
	s.opened.Store(&opened{access: AccessBoth})
	if !g.enlist(s, of) {
		g.tidy(of)
		if !owner.holds() {
			g.forgetOwner(owner)
		}
		return nil, g.full(c)
	}
	g.files.usage.Opens++
	if c.known.reclaim.held |= heldBy(KindLock, 0); a.Claimed {
		g.reclaimed(c)
	}
	return s, Granted
}

// findHostOpen returns the open of the file that the open-owner of a host has, or nil. The one on whose opens locks hang
// has no name.
func (g *guard) findHostOpen(c *Client, by []byte, r *Ref, id fileID) *State {
	of, owner := g.files.byID[id], c.holding.owners[ownerKey{name: string(by)}]
	if of == nil || owner == nil {
		return nil
	}
	return owner.states[place{shown{of, r.Key.Domain}, r.Export}]
}

// endIdle ends the opens of hosts on which no lock and no waiter hangs any more. The guard has collected those that
// have lost one.
func (g *guard) endIdle() {
	for len(g.idle) > 0 {
		s := g.idle[0]
		g.idle = g.idle[1:]
		if s.file != nil && len(s.locks) == 0 && s.waiters == 0 {
			g.drop(s)
		}
	}
}
