package export

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Squash says whose identity is replaced by the anonymous one.
type Squash uint8

// Kinds of squashing (exports(5) has the same names).
const (
	RootSquash Squash = iota // user and group 0
	NoSquash                 // only callers that have none
	AllSquash                // all
)

// Nobody is the anonymous user and group unless configured.
const Nobody = 65534

// An Export is one directory that is offered. It does not change once it is in a
// Table: another takes its place, and it is retired.
type Export struct {
	// Name is what clients mount: absolute, clean, without a trailing '/'
	// (the root itself is "/").
	Name string
	// ID is in every handle of the export; derived from Name, so that it
	// survives restarts and other exports' coming and going.
	ID uint32
	// FS is what is served.
	FS       vfs.FileSystem
	ReadOnly bool
	// Root: the export is the root of the tree of names (exports(5): fsid=0). One
	// export of a Table can be.
	Root bool
	// CrossMount: file systems that are mounted below the export's directory are served as
	// exports of their own, with its options.
	CrossMount bool
	// Nested: it is meant that clients reach the files through an export that is more open.
	Nested bool
	// UTF8: names that are not UTF-8 are refused, as RFC 7530 §12.7 has it. Local
	// programs make them all the same.
	UTF8 bool
	// Async: a reply to a change of names or attributes does not wait until
	// the change is on stable storage.
	Async bool
	// Secure: only peers on privileged ports are served.
	Secure           bool
	Squash           Squash
	AnonUID, AnonGID uint32
	// ManageGIDs: what callers under AUTH_SYS say of their supplementary groups does not
	// count; they are looked up here (rpc.mountd(8) has the name). See Table.SetGroups.
	ManageGIDs bool
	// RequireAccount: callers that are proven to be a principal that has no account here are
	// refused. Without it they act as the anonymous user.
	RequireAccount bool
	// Clients are the networks served; empty means every address.
	Clients []netip.Prefix
	// Security are the ways in which callers may prove who they are, the preferred
	// first; empty means all. Clients of one of Networks have those of that instead: of
	// the smallest, where several have their address.
	Security []Security
	Networks []NetworkSecurity

	mount *Mount // that it is, or nil
	use   use
}

// Same says whether two exports offer the same file system by the same name and with
// the same options.
func (e *Export) Same(as *Export) bool { return e.FS == as.FS && e.sameOptions(as) }

// sameOptions is Same but for the file system.
func (e *Export) sameOptions(as *Export) bool {
	mine, other := reflect.ValueOf(e).Elem(), reflect.ValueOf(as).Elem()
	for i := range mine.NumField() {
		f := mine.Type().Field(i)
		if f.IsExported() && f.Name != "FS" && f.Name != "ID" && !reflect.DeepEqual(mine.Field(i).Interface(), other.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// Serves says whether the peer of a connection may use the export at all.
func (e *Export) Serves(c *rpc.Conn) bool {
	return e.ServesAddr(c.Peer.Addr()) && (!e.Secure || c.Privileged)
}

// ServesAddr says whether an address is among the export's clients.
func (e *Export) ServesAddr(a netip.Addr) bool {
	if len(e.Clients) == 0 {
		return true
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(e.Clients, func(p netip.Prefix) bool { return p.Contains(a) })
}

// within returns what of path lies beneath the export's name, without a leading
// '/'; false where path is not the export's name nor beneath it.
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
