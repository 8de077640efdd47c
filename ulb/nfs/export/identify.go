package export

import (
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Groups looks up the supplementary groups of users, for exports that manage them. Its
// methods may be called from any goroutine and do not block.
type Groups interface {
	// Find returns the groups of a user for a call of a client. The caller must not change them. A
	// user that does not exist has no groups. If the groups are not known yet, the error is a
	// Pending, or vfs.ErrDelay if the client should repeat the call.
	Find(client netip.Addr, uid uint32) ([]uint32, error)
	// Delays reports whether Find would return vfs.ErrDelay, by the answers known so far. It
	// starts no look-up.
	Delays(uid uint32) bool
}

// A Pending is the error of a look-up that is still running.
type Pending interface {
	error
	// Await calls resume once, as soon as the caller should try again: on any goroutine, perhaps
	// before Await returns. resume must not block.
	Await(resume func())
}

// Looked holds the groups that Look has found for the caller of one call. They are valid for all
// exports that the call enters. found is false until Look has stored groups.
type Looked struct {
	groups []uint32
	found  bool
}

// manages reports whether the server has to look up the groups of a caller. That is so if the
// export manages groups, the caller uses AUTH_SYS, which proves no groups, and is not squashed.
func (e *Export) manages(c *rpc.Cred) bool {
	return e.ManageGIDs && c.Flavor == rpc.AuthSys && !c.Anonymous && e.Squash != AllSquash && (e.Squash != RootSquash || c.UID != 0)
}

// Look looks up the groups of a caller in an export, if Identify needs them (manages), and stores
// them in l. It returns the error of Groups.Find, or vfs.ErrDelay for a caller that cannot be
// identified at present. If it returns nil, Identify may be called.
func (t *Table) Look(e *Export, c *rpc.Conn, cred *rpc.Cred, l *Looked) (err error) {
	if e.unsure(cred) {
		return vfs.ErrDelay
	}
	if l.found || !e.manages(cred) {
		return nil
	}
	l.groups, err = t.Groups.Find(c.Peer.Addr(), cred.UID)
	l.found = err == nil
	return err
}

// Refuses reports whether the export refuses a caller because the caller's principal has no
// account here. The program must still allow operations that show only the export's root: a
// client needs them when it mounts, with the credential of its machine (RFC 2623 §2.3.2).
func (e *Export) Refuses(c *rpc.Cred) bool { return e.RequireAccount && c.Anonymous && !c.Unsure }

// unsure reports whether the caller's identity matters and cannot be determined at present.
func (e *Export) unsure(c *rpc.Cred) bool {
	return c.Unsure && (e.Squash != AllSquash || e.RequireAccount)
}

// Delays reports whether Look would return vfs.ErrDelay, by the answers known so far. If so,
// the server need not fetch data for the call.
func (t *Table) Delays(e *Export, cred *rpc.Cred) bool {
	return e.unsure(cred) || e.manages(cred) && t.Groups.Delays(cred.UID)
}

// Identify stores in *as the user and the groups that the file system of this export sees instead
// of those of the caller. The server calls Look before, with the same l. as.Groups may share memory
// with c.Groups.
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
		// Group 0 and the other groups of root are squashed too.
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
