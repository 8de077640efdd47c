package export

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Squash selects the callers that act as the anonymous user.
type Squash uint8

// Kinds of squashing (exports(5) has the same names).
const (
	RootSquash Squash = iota // callers with user or group 0
	NoSquash                 // only callers without an identity
	AllSquash                // all callers
)

// Nobody is the number of the default anonymous user and group.
const Nobody = 65534

// Options are the options of an export, apart from its lists of networks and security flavors.
type Options struct {
	ReadOnly bool
	// Root: the export is the root of the tree of names (exports(5): fsid=0). Only one export
	// of a Table can be.
	Root bool
	// CrossMount: file systems that are mounted below the export's directory are served as
	// exports of their own, with its options.
	CrossMount bool
	// Nested: the administrator intends that clients can reach these files through another
	// export that is more open.
	Nested bool
	// UTF8: names that are not UTF-8 are refused, as RFC 7530 §12.7 requires. Local programs
	// can still create such names.
	UTF8 bool
	// Async: a reply to a change of names or attributes does not wait until
	// the change is on stable storage.
	Async bool
	// Secure: callers without Kerberos are served only on privileged ports.
	Secure           bool
	Squash           Squash
	AnonUID, AnonGID uint32
	// ManageGIDs: the supplementary groups that callers claim under AUTH_SYS are ignored. The
	// server looks the groups up itself (rpc.mountd(8) has the same name). See
	// Table.SetGroups.
	ManageGIDs bool
	// RequireAccount: the server refuses callers whose proven principal has no account here.
	// Without this option they act as the anonymous user.
	RequireAccount bool
}

// An Export is one directory that is offered. Once it is in a Table it does not change:
// another Export replaces it, and it is retired.
type Export struct {
	// Name is the path that clients mount: absolute, clean, without a trailing '/'. The root
	// itself is "/".
	Name string
	// ID is part of every handle of the export. It is derived from Name, so that it stays the
	// same over restarts and changes of other exports.
	ID uint32
	// FS is the file system served.
	FS vfs.FileSystem
	Options
	// Clients are the networks served; empty means every address.
	Clients []netip.Prefix
	// Security lists the security flavors that callers may use, the preferred first; empty
	// means all. A client in one of Networks has the list of that network instead. If several
	// networks contain its address, the smallest one counts.
	Security []Security
	Networks []NetworkSecurity

	mount *Mount // the mount that this export is, or nil
	use   use
}

// Same reports whether two exports offer the same file system by the same name with the same
// options.
func (e *Export) Same(as *Export) bool { return e.FS == as.FS && e.sameOptions(as) }

// sameOptions is Same without the comparison of the file systems.
func (e *Export) sameOptions(as *Export) bool {
	return e.Name == as.Name && e.Options == as.Options && slices.Equal(e.Clients, as.Clients) &&
		slices.Equal(e.Security, as.Security) && slices.EqualFunc(e.Networks, as.Networks, NetworkSecurity.equal)
}

// Serves reports whether a caller on a connection may use the export at all. A caller with
// Kerberos proves its identity, so its port does not matter.
func (e *Export) Serves(c *rpc.Conn, cred *rpc.Cred) bool {
	return e.ServesAddr(c.Peer.Addr()) && (!e.Secure || c.Privileged || cred.Flavor == rpc.AuthGSS)
}

// ServesAddr reports whether an address belongs to the export's clients.
func (e *Export) ServesAddr(a netip.Addr) bool {
	if len(e.Clients) == 0 {
		return true
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Contains(a) })
}

// within returns the part of path beneath the export's name, without a leading '/'. It
// returns false if path is neither the export's name nor beneath it.
func (e *Export) within(path string) (string, bool) {
	if path == e.Name {
		return "", true
	}
	prefix := e.Name
	if prefix != "/" {
		prefix += "/"
	}
	return strings.CutPrefix(path, prefix)
}
