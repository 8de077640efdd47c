package export

import (
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Groups look up the supplementary groups of users, for exports that manage them. They
// may be called from any goroutine, and do not block.
type Groups interface {
	// Find returns the groups of a user for a call of a client, not to be changed: none
	// where there is no such user. Where that cannot be said at once, the error is a
	// Pending, or vfs.ErrDelay for a call that had better come again.
	Find(client netip.Addr, uid uint32) ([]uint32, error)
	// Delays says that Find would answer vfs.ErrDelay, as far as that is known.
	Delays(uid uint32) bool
}

// A Pending is the error for what is not known yet, and being looked up.
type Pending interface {
	error
	// Await has resume called when it is worth trying again: once, soon, on any goroutine,
	// perhaps before Await returns. resume must not block.
	Await(resume func())
}

// SetGroups has g asked for the groups of users. It is called before the first Replace,
// which refuses an export that manages groups otherwise.
func (t *Table) SetGroups(g Groups) { t.groups = g }

// Looked is what was looked up for one call, in all exports that it comes to. The zero
// value is nothing.
type Looked struct {
	groups []uint32
	found  bool
}

// manages says whether the groups of a caller are looked up: those of a user that the
// export lets act as itself, if the caller told them without proof.
func (e *Export) manages(c *rpc.Cred) bool {
	return e.ManageGIDs && c.Flavor == rpc.AuthSys && e.Squash != AllSquash && (e.Squash != RootSquash || c.UID != 0)
}

// Look makes known to l what Identify needs of a caller in an export. The error is that of
// Groups.Find, or vfs.ErrDelay for a caller that cannot be identified at present. Without an
// error Identify may be called.
func (t *Table) Look(e *Export, c *rpc.Conn, cred *rpc.Cred, l *Looked) (err error) {
	if e.unsure(cred) {
		return vfs.ErrDelay
	}
	if l.found || !e.manages(cred) {
		return nil
	}
	l.groups, err = t.groups.Find(c.Peer.Addr(), cred.UID)
	l.found = err == nil
	return err
}

// Refuses says that a caller has no part in the export, because it is a principal without an
// account here. What shows the export's root alone is for the program to let through: a
// client asks for that when it mounts, with the credential of its machine (RFC 2623 §2.3.2).
func (e *Export) Refuses(c *rpc.Cred) bool { return e.RequireAccount && c.Anonymous && !c.Unsure }

// unsure says that it cannot be told at present who a caller is, and that it matters.
func (e *Export) unsure(c *rpc.Cred) bool {
	return c.Unsure && (e.Squash != AllSquash || e.RequireAccount)
}

// OnRefusedPrincipal has f told of each call that is refused because the export Refuses its
// caller, on the goroutine that judges or serves the call: it must not block. It is
// called before the Table is used.
func (t *Table) OnRefusedPrincipal(f func(c *rpc.Conn, e *Export, principal string)) {
	t.refusedPrincipal = f
}

// RefusedPrincipal tells of such a call.
func (t *Table) RefusedPrincipal(c *rpc.Conn, e *Export, cred *rpc.Cred) {
	if t.refusedPrincipal != nil {
		t.refusedPrincipal(c, e, cred.Principal)
	}
}

// Delays says that Look will answer vfs.ErrDelay, as far as that is known: nothing needs
// to be brought for such a call.
func (t *Table) Delays(e *Export, cred *rpc.Cred) bool {
	return e.unsure(cred) || e.manages(cred) && t.groups.Delays(cred.UID)
}

// Identify is called after Look. It sets *as to the user and groups that the caller acts with
// in this export. as.Groups may alias c.Groups. Groups that were not looked up count as none.
func (e *Export) Identify(c *rpc.Cred, l *Looked, as *vfs.Cred) {
	if e.Squash == AllSquash || c.Flavor == rpc.AuthNone || c.Anonymous {
		*as = vfs.Cred{UID: e.AnonUID, GID: e.AnonGID}
		return
	}
	*as = vfs.Cred{UID: c.UID, GID: c.GID, Groups: c.Groups}
	if e.manages(c) {
		as.Groups = l.groups
	}
	if e.Squash != RootSquash {
		return
	}
	if as.UID == 0 {
		// Root's groups are root's as well.
		*as = vfs.Cred{UID: e.AnonUID, GID: e.AnonGID}
		return
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
}
