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
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Table is the set of exports of a server and the key that seals their handles. All goroutines may call it.
type Table struct {
	seal    *sealer
	current atomic.Pointer[set]
	// A goroutine holds changing while it builds a new set for current.
	changing sync.Mutex
	root     *Export

	// The server may set the following fields before the first Replace. The functions, apart from
	// OnMissing, run on the goroutine that serves a call, and must not block. Only OnMissing and Groups
	// may be nil. Without Groups, Replace refuses an export that manages groups.

	// OnMissing is called when a client reaches a mount point that the Table does not know. It looks for
	// new mounts, and may block. It returns false if it cannot look soon.
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

// A Tree holds the exports by their paths in the one tree of names that NFSv4 has (RFC 8881 §7.3). The
// path of an export is its name. But if an export is the Root, its path is "/", and the path of an
// export below it is the rest of its name. A table with other exports has another Tree.
type Tree struct{ ByPath map[string]*Export }

// PathOf returns the path of the export with a name, or "" if there is none.
func (t *Tree) PathOf(name string) string {
	for path, e := range t.ByPath {
		if e.Name == name {
			return path
		}
	}
	return ""
}

// NewTable returns an empty table that seals handles with key. The key is secret and must stay the same
// over restarts, so that handles stay valid.
func NewTable(key [KeySize]byte) *Table {
	t := &Table{
		seal: newSealer(key), OnRefusal: func(*Refusal) {},
		OnRefusedFlavor:    func(*rpc.Conn, *Export, Security) {},
		OnRefusedPrincipal: func(*rpc.Conn, *Export, string) {},
	}
	t.current.Store(&set{mounts: noMounts})
	return t
}

// SetRoot makes e the export of the directories above all other exports, for NFSv4. Its ID is 0, and All
// does not return it. The caller calls SetRoot before the first Replace.
func (t *Table) SetRoot(e *Export) {
	e.ID = 0
	t.root = e
}

// Root returns the export of SetRoot, or nil.
func (t *Table) Root() *Export { return t.root }

// Replace makes exports the table's content. It fills in their IDs and what their handles are sealed
// with; it does not write to an export that already has its ID, because calls may be using it. It ends
// the mounts below exports that are gone, and gives the others the options that their exports have now. New
// exports have no mounts until the next SetMounts.
func (t *Table) Replace(exports []*Export) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	s, err := t.build(exports)
	if err != nil {
		return err
	}
	before := t.current.Load()
	s.openAccounts(before) // before mounts take them over from their exports
	s.inherit(before)
	t.current.Store(s)
	s.endMissing(before)
	return nil
}

// Check returns the error that Replace would return. It fills in the IDs of exports.
func (t *Table) Check(exports []*Export) error {
	_, err := t.build(exports)
	return err
}

// build returns a set with these exports, and without mounts.
func (t *Table) build(exports []*Export) (*set, error) {
	s := &set{byID: make(map[uint32]*Export, len(exports)+1)}
	if t.root != nil {
		s.byID[0] = t.root
	}
	for _, e := range exports {
		if !strings.HasPrefix(e.Name, "/") || path.Clean(e.Name) != e.Name {
			return nil, fmt.Errorf("export name %q is not a clean absolute path such as %q", e.Name, path.Clean("/"+e.Name))
		}
		if e.ManageGIDs && t.Groups == nil {
			return nil, fmt.Errorf("export %q has the option manage_gids, and this server has no service that looks up groups: leave the option out", e.Name)
		}
		if id := idOf(e.Name); e.ID != id {
			e.ID, e.scope = id, scopeOf(e.FS)
		}
		if other := s.byID[e.ID]; other != nil {
			if other.Name == e.Name {
				return nil, fmt.Errorf("two exports have the name %q: give one of them another (DIR:/name)", e.Name)
			}
			return nil, fmt.Errorf("exports %q and %q have the same handle identity: rename one of them", other.Name, e.Name)
		}
		s.byID[e.ID] = e
		s.sorted = append(s.sorted, e)
	}
	return s, s.plant()
}

// CheckTree returns an error if the names of exports cannot be in one Tree. It looks at their names and at
// Root, and needs nothing else of them.
func CheckTree(exports []*Export) error {
	s := &set{sorted: slices.Clone(exports)}
	return s.plant()
}

// plant sorts the exports, and fills in s.tree.
func (s *set) plant() error {
	slices.SortFunc(s.sorted, func(a, b *Export) int {
		if d := len(b.Name) - len(a.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	var root *Export
	for _, e := range s.sorted {
		switch {
		case !e.Root:
		case root != nil:
			return fmt.Errorf("exports %q and %q both have the option fsid=0: only one export can be the root of NFSv4's names, leave the option out of the other", root.Name, e.Name)
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
			return fmt.Errorf("clients of NFSv4 would see exports %q and %q both as %q, below the export with fsid=0 (%q): give one of them another name", other.Name, e.Name, at, root.Name)
		}
		s.tree.ByPath[at] = e
	}
	return nil
}

// All returns the exports, those with the longest names first.
func (t *Table) All() []*Export { return t.current.Load().sorted }

// ByID returns the export with the ID of a handle, or nil. If it is a mount, it may be closed: see Awake.
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

// Resolve finds the closest export above a mount path. names are the components of the path in the export.
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

// Reasons: the variable reasons explains them.
const (
	NoExport Reason = iota
	NotAClient
	UnprivilegedPort
	FileSystem
	NoGroups
	NoAccount
	Stranger
)

var reasons = [...]string{
	NoExport:         "no export has this path",
	NotAClient:       "the export is not for this address",
	UnprivilegedPort: "the export is secure, the port is not privileged, and the caller has not used Kerberos",
	FileSystem:       "the path leads to no directory that the caller may reach",
	NoGroups:         "the caller or its groups cannot be looked up at present",
	NoAccount:        "the export has the option require_account, and the caller's principal has no user here",
	Stranger:         "no export is for this address",
}

// String returns the reason in words.
func (r Reason) String() string { return reasons[r] }

// A Refusal describes a mount that the server refused: an MNT or, in NFSv4, a LOOKUP that failed in the
// directories of package pseudo, or a client that no export serves.
type Refusal struct {
	Client netip.AddrPort
	Path   string       // as the client sent it; "" if it named none
	Export *Export      // nil if no single export caused the refusal
	Status fmt.Stringer // status of the answer
	Reason Reason
}

// mounts holds the mounts below the exports of a Table. SetMounts and Replace make a new one.
type mounts struct {
	byID   map[uint32]*Mount
	byName map[string]*Mount
	// at holds the name of the mount for each directory that is a mount point. If an export has the
	// same name, there is no such mount, and the mount point leads into that export.
	at map[mountPoint]string
}

// A mountPoint is a directory: the export or mount that it is in, and its path on this machine.
type mountPoint struct{ in, path string }

var noMounts = &mounts{}

// SetMounts sets the mounts below exports. It opens no file system. It ends the earlier mounts that are
// not in found, and returns them. If several mounts in found have the same name, the first counts. If
// one of the Table's exports has the name of a mount, the mount point leads into that export.
func (t *Table) SetMounts(found []Found, opener Opener) (gone []*Mount) {
	t.changing.Lock()
	defer t.changing.Unlock()
	old := t.current.Load()
	next := &mounts{
		byID: make(map[uint32]*Mount, len(found)), byName: make(map[string]*Mount, len(found)),
		at: make(map[mountPoint]string, len(found)),
	}
	for i := range found {
		f := &found[i]
		next.at[mountPoint{f.Under, f.Point}] = f.Name
		if next.byName[f.Name] != nil || old.named(f.Name) != nil {
			continue
		}
		m := old.mounts.byName[f.Name]
		if m != nil && m.topName == f.Top.Name && m.same(f) {
			m.offer(f.Top)
		} else {
			m = newMount(f.cloned(), opener)
		}
		if old.byID[m.ExportID] != nil || next.byID[m.ExportID] != nil {
			m = newMount(m.Found, opener)
			m.Refused = "another export or mount has the same handle identity: mount it elsewhere, or export it by itself under another name"
		} else {
			next.byID[m.ExportID] = m
		}
		next.byName[f.Name] = m
	}
	s := *old
	s.mounts = next
	t.current.Store(&s)
	return s.endMissing(old)
}

// endMissing ends the mounts of the earlier set that are not in s, and returns them.
func (s *set) endMissing(before *set) (gone []*Mount) {
	for name, m := range before.mounts.byName {
		if s.mounts.byName[name] != m {
			m.End()
			gone = append(gone, m)
		}
	}
	return gone
}

// cloned returns a copy of f that does not keep alive the text that f was read from.
func (f *Found) cloned() Found {
	c := *f
	for _, s := range []*string{&c.Under, &c.Dir, &c.Point, &c.Name, &c.Device, &c.Root, &c.Kind, &c.Refused} {
		*s = strings.Clone(*s)
	}
	return c
}

// named returns the export with the given name, or nil. It does not look among the mounts.
func (s *set) named(name string) *Export {
	if e := s.byID[idOf(name)]; e != nil && e.Name == name {
		return e
	}
	return nil
}

// inherit copies mounts from the earlier set to s, and gives them the options that their Top has now. It
// leaves out the mounts whose Top is no longer exported, shows another directory, or no longer crosses
// mounts, and those whose name an export has taken.
func (s *set) inherit(before *set) {
	s.mounts = noMounts
	if len(before.mounts.byName) == 0 {
		return
	}
	next := &mounts{byID: make(map[uint32]*Mount), byName: make(map[string]*Mount), at: before.mounts.at}
	for name, m := range before.mounts.byName {
		top := s.named(m.topName)
		if top == nil || !top.CrossMount || top.FS != m.Top.FS || s.named(name) != nil {
			continue
		}
		if top != m.Top {
			m.offer(top)
		}
		next.byName[name] = m
		if s.byID[m.ExportID] == nil && before.mounts.byID[m.ExportID] == m {
			next.byID[m.ExportID] = m
		}
	}
	s.mounts = next
}

// Mounts returns the mounts below exports, sorted by name.
func (t *Table) Mounts() []*Mount {
	s := t.current.Load()
	all := make([]*Mount, 0, len(s.mounts.byName))
	for _, m := range s.mounts.byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Mount) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// mountedAt is Mounted, but does not open the file system of a mount.
func (t *Table) mountedAt(at *Export, point string) (*Export, error) {
	s := t.current.Load()
	name, ok := s.mounts.at[mountPoint{at.Name, point}]
	if !ok {
		return nil, syscall.EXDEV
	}
	if e := s.named(name); e != nil {
		return e, nil
	}
	if m := s.mounts.byName[name]; m != nil {
		return m.now.Load(), nil
	}
	return nil, syscall.EXDEV
}

// Way returns the path to the mount m: the export in which it is mounted, which may be a closed mount,
// and the components of the path from that export's root to the directory that m covers. from is nil if
// the Table has no such export any more.
func (t *Table) Way(m *Mount) (from *Export, names []string) {
	s := t.current.Load()
	if from = s.named(m.Under); from == nil {
		if under := s.mounts.byName[m.Under]; under != nil {
			from = under.now.Load()
		}
	}
	rest := strings.TrimPrefix(m.Point, strings.TrimSuffix(m.Dir, "/")+"/")
	return from, strings.Split(path.Clean(rest), "/")
}
