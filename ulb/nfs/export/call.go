package export

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Serves reports whether a caller on a connection may use the export at all. With Kerberos the port is free.
func (e *Export) Serves(c *rpc.Conn, cred *rpc.Cred) bool {
	return e.ServesAddr(c.Peer.Addr()) && (!e.Secure || c.Privileged || cred.Flavor == rpc.AuthGSS)
}

// Serves reports whether an export serves a caller on a connection. The directories above all exports, which every
// caller may see, do not count.
func (t *Table) Serves(c *rpc.Conn, cred *rpc.Cred) bool {
	return slices.ContainsFunc(t.All(), func(e *Export) bool { return e.Serves(c, cred) })
}

// Knows reports whether a call with the handle of o makes the caller's peer a known one (rpc.Conn.Known): the handle is
// genuine, and an export serves the caller.
func (t *Table) Knows(o *Opened, c *rpc.Conn, cred *rpc.Cred) bool {
	switch {
	case c.Known():
		return true
	case !o.Proven():
		return false
	case o.Export == t.Root():
		return t.Serves(c, cred)
	}
	return o.Export.Serves(c, cred)
}

// ServesAddr reports whether an address belongs to the export's clients.
func (e *Export) ServesAddr(a netip.Addr) bool {
	if len(e.Clients) == 0 {
		return true
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Contains(a) })
}

// SecurityOf returns the flavor of a caller; Sys for AUTH_NONE, with which it acts as the anonymous user.
func SecurityOf(c *rpc.Cred) Security {
	if c.Flavor != rpc.AuthGSS {
		return Sys
	}
	return Krb5 + Security(c.GSS-rpc.GSSNone)
}

// SecurityFor returns the flavors that callers from an address may use: see Export.Security.
func (e *Export) SecurityFor(a netip.Addr) []Security {
	all, bits := e.Security, -1
	if len(e.Networks) == 0 {
		return all
	}
	a = a.Unmap().WithZone("")
	for i := range e.Networks {
		if n := &e.Networks[i]; n.Network.Bits() > bits && n.Network.Contains(a) {
			all, bits = n.Security, n.Network.Bits()
		}
	}
	return all
}

// Admits reports whether the export accepts the caller's security flavor on a connection.
func (e *Export) Admits(c *rpc.Conn, cred *rpc.Cred) bool {
	all := e.SecurityFor(c.Peer.Addr())
	return len(all) == 0 || slices.Contains(all, SecurityOf(cred))
}

// Refuses reports whether the export refuses a caller because the caller's principal has no account
// here. The program must still allow operations that show only the export's root: a client needs them
// when it mounts, with the credential of its machine (RFC 2623 §2.3.2).
func (e *Export) Refuses(c *rpc.Cred) bool { return e.RequireAccount && c.Anonymous && !c.Unsure }

// unsure reports whether the caller's identity matters and cannot be determined at present.
func (e *Export) unsure(c *rpc.Cred) bool {
	return c.Unsure && (e.Squash != AllSquash || e.RequireAccount)
}

// Tree returns the positions of the exports in the tree of names.
func (t *Table) Tree() *Tree { return &t.current.Load().tree }

// Mount returns the Mount of e if e is a mount below another export, else nil.
func (e *Export) Mount() *Mount { return e.mount }

// stripes is the number of counters of running calls in an export. Each connection uses one of them, so
// that connections on different processors rarely write to the same memory.
const stripes = 16

// use counts the calls that use an export's file system. The zero value is ready.
type use struct {
	calls   [stripes]stripe
	retired atomic.Bool
	settled sync.Once
	idle    chan struct{} // made before retired is set
}

// A stripe counts calls in the field n: the low half counts the calls that are inside, and the high
// half all calls that ever entered. A stripe fills a cache line.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

const (
	oneEnters = 1<<32 + 1
	oneLeaves = ^uint64(0) // subtracts one
	inside    = 1<<32 - 1
)

// Enter counts a call that is about to use the file system, until its Leave. It returns false if the
// export is retired: the call then asks Table.Awake for its successor.
func (e *Export) Enter(c *rpc.Conn) bool {
	s := &e.use.calls[c.ID%stripes]
	s.n.Add(oneEnters)
	if e.use.retired.Load() {
		e.use.leave(s)
		return false
	}
	return true
}

// Leave ends the use that began when Enter returned true for the same connection.
func (e *Export) Leave(c *rpc.Conn) { e.use.leave(&e.use.calls[c.ID%stripes]) }

func (u *use) leave(s *stripe) {
	if s.n.Add(oneLeaves)&inside == 0 && u.retired.Load() {
		u.settle()
	}
}

// settle closes idle if no call is inside. It runs after retired is set: calls that enter later leave at
// once, so the call that leaves last finds all stripes at zero.
func (u *use) settle() {
	for i := range u.calls {
		if u.calls[i].n.Load()&inside != 0 {
			return
		}
	}
	u.settled.Do(func() { close(u.idle) })
}

// entries returns the number of calls that have entered, modulo 1<<32, and whether any is inside.
func (u *use) entries() (n uint64, busy bool) {
	for i := range u.calls {
		v := u.calls[i].n.Load()
		n += v >> 32
		busy = busy || v&inside != 0
	}
	return n, busy
}

// Retire makes Enter refuse all further calls. The channel is closed when all calls that had entered
// have left. The caller calls Retire once, after the Table has replaced or removed the export.
func (e *Export) Retire() (idle <-chan struct{}) {
	e.use.idle = make(chan struct{})
	e.use.retired.Store(true)
	e.use.settle()
	return e.use.idle
}

// Groups looks up the supplementary groups of users, for exports that manage them. Its methods may be
// called from any goroutine and do not block.
type Groups interface {
	// Find returns the groups of a user for a call of a client. The call came by the connection conn, which
	// is only compared. The caller must not change the groups. A user that does not exist has no groups. If
	// the groups are not known yet, the error is a Pending, or vfs.ErrDelay if the client should repeat the
	// call.
	Find(client netip.Addr, conn any, uid uint32) ([]uint32, error)
	// Delays reports whether Find would return vfs.ErrDelay. It starts no look-up.
	Delays(uid uint32) bool
}

// A Pending is the error of a look-up that is still running.
type Pending interface {
	error
	// Await calls resume, which must not block, once, as soon as the caller should try again: on any
	// goroutine, perhaps before Await returns.
	Await(resume func())
}

// Looked holds the groups that Look has found for the caller of one call, for all exports that the call
// enters. found is false until Look has stored groups.
type Looked struct {
	groups []uint32
	found  bool
}

// manages reports whether the server has to look up the groups of a caller: the export manages groups,
// and the caller uses AUTH_SYS, which proves no groups, and is not squashed.
func (e *Export) manages(c *rpc.Cred) bool {
	return e.ManageGIDs && c.Flavor == rpc.AuthSys && !c.Anonymous && e.Squash != AllSquash && (e.Squash != RootSquash || c.UID != 0)
}

// Delays reports whether Look would return vfs.ErrDelay: the server need not fetch data for the call.
func (t *Table) Delays(e *Export, cred *rpc.Cred) bool {
	return e.unsure(cred) || e.manages(cred) && t.Groups.Delays(cred.UID)
}

// Look looks up the groups of a caller in an export, if Identify needs them, and stores them in l. It
// returns the error of Groups.Find, or vfs.ErrDelay for a caller that cannot be identified at present.
func (t *Table) Look(e *Export, c *rpc.Conn, cred *rpc.Cred, l *Looked) (err error) {
	if e.unsure(cred) {
		return vfs.ErrDelay
	}
	if l.found || !e.manages(cred) {
		return nil
	}
	l.groups, err = t.Groups.Find(c.Peer.Addr(), c, cred.UID)
	l.found = err == nil
	return err
}

// Identify stores in *as the user and the groups that the file system of this export sees for the caller.
// It returns true if that is the anonymous user. The server has called Look with the same l. as.Groups may
// share memory with c.Groups.
func (e *Export) Identify(c *rpc.Cred, l *Looked, as *vfs.Cred) (anonymous bool) {
	if e.Squash == AllSquash || c.Flavor == rpc.AuthNone || c.Anonymous || e.Squash == RootSquash && c.UID == 0 {
		// Group 0 and the other groups of root are squashed too.
		*as = vfs.Cred{UID: e.AnonUID, GID: e.AnonGID}
		return true
	}
	*as = vfs.Cred{UID: c.UID, GID: c.GID, Groups: c.Groups}
	if e.manages(c) {
		as.Groups = l.groups
	}
	if e.Squash != RootSquash {
		return false
	}
	if as.GID == 0 {
		as.GID = e.AnonGID
	}
	if slices.Contains(as.Groups, 0) {
		groups := make([]uint32, 0, len(as.Groups))
		for _, g := range as.Groups {
			if g == 0 {
				g = e.AnonGID
			}
			groups = append(groups, g)
		}
		as.Groups = groups
	}
	return false
}
