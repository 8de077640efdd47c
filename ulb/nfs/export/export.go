package export

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
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
	// Root makes the export the root of the tree of names that NFSv4 clients see (exports(5):
	// fsid=0). Only one export of a Table can have it.
	Root bool
	// CrossMount makes the server export file systems that are mounted below the export's
	// directory. Each becomes an export of its own with these options.
	CrossMount bool
	// Nested means that the administrator accepts that clients can reach these files through
	// another export that is more open.
	Nested bool
	// UTF8 makes the server refuse names that are not UTF-8, as RFC 7530 §12.7 requires. Local
	// programs can still create such names.
	UTF8 bool
	// Async lets the server reply to a change of names or attributes before the change is on stable
	// storage.
	Async bool
	// Secure makes the server refuse callers without Kerberos on ports that are not privileged.
	Secure           bool
	Squash           Squash
	AnonUID, AnonGID uint32
	// ManageGIDs makes the server ignore the supplementary groups that callers claim under
	// AUTH_SYS. The server looks the groups up itself, as with the option --manage-gids of
	// rpc.mountd(8). See Table.SetGroups.
	ManageGIDs bool
	// RequireAccount makes the server refuse callers whose proven principal has no account here.
	// Without this option they act as the anonymous user.
	RequireAccount bool
}

// An Export is one directory that clients can mount. Once it is in a Table it does not change: to
// change it, the Table replaces it by another Export and retires it.
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

	mount *Mount // the Mount if the export is a mount below another export, else nil
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

// stripes is the number of counters of running calls in an export. A connection always uses the
// same counter, chosen by the connection's ID. Connections on different processors thus rarely
// write to the same memory.
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

// entries returns the number of calls that have entered, modulo 1<<32 for each stripe, and
// whether any call is inside.
func (u *use) entries() (n uint64, busy bool) {
	for i := range u.calls {
		v := u.calls[i].n.Load()
		n += v >> 32
		busy = busy || v&inside != 0
	}
	return n, busy
}

// Enter counts a call that is about to use the file system, until the call's Leave. It returns
// false if the export is retired: the call must not use the export, and asks Table.Awake for its
// successor.
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

// Retire makes Enter refuse all further calls. The channel is closed when all calls that had
// entered have left; then the file system can be closed. The caller calls Retire once, after the
// Table has replaced or removed the export.
func (e *Export) Retire() (idle <-chan struct{}) {
	e.use.idle = make(chan struct{})
	e.use.retired.Store(true)
	e.use.settle()
	return e.use.idle
}

func (u *use) leave(s *stripe) {
	if s.n.Add(oneLeaves)&inside == 0 && u.retired.Load() {
		u.settle()
	}
}

// settle closes idle if no call is inside. It runs after retired is set. If settle finds the
// counter of a stripe at zero, no call uses the file system through that stripe any more, because
// calls that enter later leave at once. The call that leaves last therefore finds all stripes at
// zero.
func (u *use) settle() {
	for i := range u.calls {
		if u.calls[i].n.Load()&inside != 0 {
			return
		}
	}
	u.settled.Do(func() { close(u.idle) })
}
