package export

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Squash selects the callers that act as the anonymous user, with Options.AnonUID and AnonGID.
type Squash uint8

// Kinds of squashing (exports(5) has the same names).
const (
	RootSquash Squash = iota // callers with user 0; for other callers, AnonGID replaces group 0
	NoSquash                 // only callers without an identity
	AllSquash                // all callers
)

// Nobody is the number of the default anonymous user and group.
const Nobody = 65534

// Options are the options of an export, apart from its lists of networks and security flavors.
type Options struct {
	ReadOnly bool
	// Root makes the export the root of NFSv4's tree of names (exports(5): fsid=0). Only one has it.
	Root bool
	// CrossMount makes each file system mounted below the directory an export with these options.
	CrossMount bool
	// Nested means that clients may reach these files through another export that is more open.
	Nested bool
	// NoLocks makes the server refuse the locks and shares of NFSv3 (NLM). Clients of NFSv4 lock all the same.
	NoLocks bool
	// UTF8 makes the server refuse names that are not UTF-8, as RFC 7530 §12.7 requires.
	UTF8 bool
	// Async lets the server reply to a change of names or attributes before it is on stable storage.
	Async bool
	// Secure makes the server refuse callers without Kerberos on ports that are not privileged.
	Secure           bool
	Squash           Squash
	AnonUID, AnonGID uint32
	// ManageGIDs makes the server look up the supplementary groups of callers under AUTH_SYS
	// (Table.Groups) instead of believing them, as with the option --manage-gids of rpc.mountd(8).
	ManageGIDs bool
	// RequireAccount makes the server refuse callers whose proven principal has no account here, instead
	// of treating them as the anonymous user.
	RequireAccount bool
}

// An Export is one directory that clients can mount. Once it is in a Table it does not change: to
// change it, the Table replaces it by another Export and retires it.
type Export struct {
	// Name is the path that clients mount: absolute and clean.
	Name string
	// ID is part of every handle of the export. It is derived from Name, so that it stays the same.
	ID uint32
	// FS is the file system served.
	FS vfs.FileSystem
	Options
	// Clients are the networks served; empty means every address.
	Clients []netip.Prefix
	// Security lists the security flavors that callers may use, the preferred first; empty means all.
	// For a client in Networks the list of the smallest network that contains its address counts.
	Security []Security
	Networks []NetworkSecurity

	mount *Mount // the Mount if the export is a mount below another export, else nil
	use   use
	// account is nil for the export of Table.SetRoot, and until Replace.
	account *account

	// scope is the Scope of FS. If unknown is set, FS is a mount's that has not been open yet, so
	// that no handle of it can be checked; proof is then the handle by which Find returned the export.
	scope   vfs.Scope
	unknown bool
	proof   *opened
}

// scopeOf returns the Scope of a file system, or zero if its handles need none.
func scopeOf(fs vfs.FileSystem) (s vfs.Scope) {
	if scoped, ok := vfs.As[vfs.Scoped](fs); ok {
		s = scoped.Scope()
	}
	return s
}

// Same reports whether two exports offer the same file system by the same name and options.
func (e *Export) Same(as *Export) bool { return e.FS == as.FS && e.sameOptions(as) }

// sameOptions is Same without the comparison of the file systems.
func (e *Export) sameOptions(as *Export) bool {
	return e.Name == as.Name && e.Options == as.Options && slices.Equal(e.Clients, as.Clients) &&
		slices.Equal(e.Security, as.Security) && slices.EqualFunc(e.Networks, as.Networks, NetworkSecurity.equal)
}

// within returns the part of path below the export's name, without a leading '/'. It returns false
// if path is neither the export's name nor below it.
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
