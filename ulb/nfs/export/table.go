package export

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Table is the set of exports of a server and the key that seals their handles. Its methods
// may be called from any goroutine.
type Table struct {
	seal    *sealer
	current atomic.Pointer[set]
	// A goroutine holds changing while it builds a new set for current.
	changing sync.Mutex
	root     *Export

	// The server may set the following fields before the first Replace. The functions, apart from
	// OnMissing, run on the goroutine that serves a call, and must not block. OnMissing and Groups may
	// be nil; Replace then refuses an export that manages groups.

	// OnMissing is called when a client reaches a mount point that the Table does not know. It looks
	// for new mounts and returns true; it may block. If it cannot look for mounts soon, it returns
	// false.
	OnMissing func() bool
	// The NFS programs call OnRefusal for each refused mount, before they answer. They call
	// OnRefusedFlavor for each call that is refused because of its security flavor, and
	// OnRefusedPrincipal for each one that is refused because Export.Refuses returned true.
	OnRefusal          func(*Refusal)
	OnRefusedFlavor    func(c *rpc.Conn, e *Export, as Security)
	OnRefusedPrincipal func(c *rpc.Conn, e *Export, principal string)
	// Groups is the source of users' groups.
	Groups Groups
}

type set struct {
	byID   map[uint32]*Export
	sorted []*Export // by descending length of name: the first match is the closest
	tree   Tree
	mounts *mounts
}

// A Tree holds the path of each export in the one tree of names that NFSv4 has (RFC 8881 §7.3). If
// no export is the Root, the path of each export is its name. Otherwise the path of the Root is
// "/", the path of an export below the Root is the rest of its name, and the path of any other
// export is its name. A Tree does not change: a table with other exports has another Tree.
type Tree struct {
	// ByPath holds the exports by their paths in the tree, which are clean and absolute.
	ByPath map[string]*Export
}

// NewTable returns an empty table that seals handles with key. The key is secret and must
// stay the same over restarts, so that handles stay valid.
func NewTable(key [KeySize]byte) *Table {
	t := &Table{
		seal: newSealer(key), OnRefusal: func(*Refusal) {},
		OnRefusedFlavor:    func(*rpc.Conn, *Export, Security) {},
		OnRefusedPrincipal: func(*rpc.Conn, *Export, string) {},
	}
	t.current.Store(&set{mounts: noMounts})
	return t
}

// SetRoot makes e the export of the directories above all other exports, for NFSv4, which has one
// tree of names (RFC 8881 §7.3). Its ID is 0, and All does not return it. The caller calls SetRoot
// before the first Replace.
func (t *Table) SetRoot(e *Export) {
	e.ID = 0
	t.root = e
}

// Root returns the export of SetRoot, or nil.
func (t *Table) Root() *Export { return t.root }

// Replace makes exports the table's content. It fills in their IDs; it does not write to an export
// that already has its ID, because calls may be using it. It ends the mounts below exports that are
// gone. New exports have no mounts until the next SetMounts.
func (t *Table) Replace(exports []*Export) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	s := &set{byID: make(map[uint32]*Export, len(exports)+1)}
	if t.root != nil {
		s.byID[0] = t.root
	}
	for _, e := range exports {
		if !strings.HasPrefix(e.Name, "/") || path.Clean(e.Name) != e.Name {
			return fmt.Errorf("export name %q is not a clean absolute path such as %q", e.Name, path.Clean("/"+e.Name))
		}
		if e.ManageGIDs && t.Groups == nil {
			return fmt.Errorf("export %q is to manage the groups of its callers, and nothing is there to look them up", e.Name)
		}
		if id := idOf(e.Name); e.ID != id {
			e.ID = id
		}
		if other := s.byID[e.ID]; other != nil {
			if other.Name == e.Name {
				return fmt.Errorf("two exports have the name %q: give one of them another (DIR:/name)", e.Name)
			}
			return fmt.Errorf("exports %q and %q have the same handle identity: rename one of them", other.Name, e.Name)
		}
		s.byID[e.ID] = e
		s.sorted = append(s.sorted, e)
	}
	slices.SortFunc(s.sorted, func(a, b *Export) int {
		if d := len(b.Name) - len(a.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	if err := s.plant(); err != nil {
		return err
	}
	before := t.current.Load()
	s.inherit(before)
	t.current.Store(s)
	s.endMissing(before)
	return nil
}

// plant fills in s.tree from the sorted exports.
func (s *set) plant() error {
	var root *Export
	for _, e := range s.sorted {
		switch {
		case !e.Root:
		case root != nil:
			return fmt.Errorf("exports %q and %q are both to be the root: only one can be", root.Name, e.Name)
		default:
			root = e
		}
	}
	s.tree.ByPath = make(map[string]*Export, len(s.sorted))
	for _, e := range s.sorted {
		at := e.Name
		if root != nil {
			if rest, in := root.within(e.Name); in {
				at = "/" + rest
			}
		}
		if other := s.tree.ByPath[at]; other != nil {
			return fmt.Errorf("exports %q and %q are both %q below the root %q: rename one of them", other.Name, e.Name, at, root.Name)
		}
		s.tree.ByPath[at] = e
	}
	return nil
}

// All returns the exports, those with the longest names first.
func (t *Table) All() []*Export { return t.current.Load().sorted }

// ByID returns the export with the ID of a handle, or nil. If the export is a mount, its file
// system may be closed: the export then has its options only, and Awake opens the file system.
func (t *Table) ByID(id uint32) *Export { return t.current.Load().find(id) }

func (s *set) find(id uint32) *Export {
	if e := s.byID[id]; e != nil {
		return e
	}
	if m := s.mounts.byID[id]; m != nil {
		return m.now.Load()
	}
	return nil
}

// Resolve finds the export that contains a mount path. If several contain it, Resolve returns the
// export with the longest name. names are the components of the path below the export's root.
func (t *Table) Resolve(mountPath string) (e *Export, names []string, ok bool) {
	clean := path.Clean("/" + mountPath)
	for _, e := range t.current.Load().sorted {
		if rest, in := e.within(clean); in {
			if rest != "" {
				names = strings.Split(rest, "/")
			}
			return e, names, true
		}
	}
	return nil, nil, false
}

// idOf returns an export's ID: 32 bits of the digest of its name, never 0.
func idOf(name string) uint32 {
	sum := sha256.Sum256([]byte("nfsrdmad export " + name))
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}

// A Reason is the reason for a refused mount.
type Reason uint8

// Reasons.
const (
	// NoExport: no export has the path or a path above it.
	NoExport Reason = iota
	// NotAClient: the export does not serve the client's address.
	NotAClient
	// UnprivilegedPort: the export is secure, the client's port is not privileged, and the
	// caller has not used Kerberos.
	UnprivilegedPort
	// FileSystem: the path leads to no directory that the caller may reach.
	FileSystem
	// NoGroups: the caller's groups, or the caller's identity, cannot be looked up at
	// present.
	NoGroups
	// NoAccount: the export requires an account, and the caller's principal has none here.
	NoAccount
	// Stranger: no export serves the client's address.
	Stranger
)

var reasons = [...]string{
	NoExport: "no export has this path", NotAClient: "the export is not for this address",
	UnprivilegedPort: "the export is secure, the port is not privileged, and the caller has not used Kerberos", FileSystem: "the path leads to no directory that the caller may reach",
	NoGroups: "the caller or its groups cannot be looked up at present", NoAccount: "the export has the option require_account, and the caller's principal has no user here",
	Stranger: "no export is for this address",
}

// String returns the reason in words.
func (r Reason) String() string { return reasons[r] }

// A Refusal describes a mount that the server refused: an MNT or, in NFSv4, a LOOKUP that failed in
// the directories that lead to the exports (see package pseudo). It may also describe an NFSv4
// client that no export serves.
type Refusal struct {
	Client netip.AddrPort
	Path   string       // as the client sent it; "" if it named none
	Export *Export      // nil if no single export caused the refusal
	Status fmt.Stringer // status of the answer
	Reason Reason
}
