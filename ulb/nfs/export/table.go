package export

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A Table is the set of exports of a server, and the key that seals their
// handles. Its methods may be called from any goroutine.
type Table struct {
	seal    *sealer
	current atomic.Pointer[set]
	// changing is held while current is made anew.
	changing sync.Mutex
	root     *Export
	// missing is that of OnMissing, or nil.
	missing func() bool
	// refused is that of OnRefusal, or nil.
	refused func(*Refusal)
	// refusedFlavor is that of OnRefusedFlavor, or nil.
	refusedFlavor func(*rpc.Conn, *Export, Security)
	// refusedPrincipal is that of OnRefusedPrincipal, or nil.
	refusedPrincipal func(*rpc.Conn, *Export, string)
	// groups is that of SetGroups, or nil.
	groups Groups
}

type set struct {
	byID   map[uint32]*Export
	sorted []*Export // by descending length of name: the first match is the closest
	tree   Tree
	mounts *mounts
}

// A Tree is where exports hang in the one tree of names that some programs have (RFC
// 8881 §7.3): at their names, where none of them is the Root; else those beneath the
// Root by what their names have beyond its own, the Root itself at "/", and all others
// at their names. It does not change: a table with other exports has another Tree.
type Tree struct {
	// ByPath are the exports by clean absolute path.
	ByPath map[string]*Export
}

// NewTable returns an empty table whose handles are sealed with key, 32 bytes
// that are secret and outlive the process.
func NewTable(key [KeySize]byte) *Table {
	t := &Table{seal: newSealer(key)}
	t.current.Store(&set{mounts: noMounts})
	return t
}

// SetRoot makes e the export that the names of all others hang below, for programs that
// have one tree of names (RFC 8881 §7.3). Its ID is 0, and it is not among All. It is
// called before the first Replace.
func (t *Table) SetRoot(e *Export) {
	e.ID = 0
	t.root = e
}

// Root is the export of SetRoot, or nil.
func (t *Table) Root() *Export { return t.root }

// Replace makes exports the table's content. It fills in each ID, but of those that are
// in the table already, which calls work with. What is mounted below
// those that are gone comes to its end; SetMounts says what is mounted below others.
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
		if e.ManageGIDs && t.groups == nil {
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
	s.end(before)
	return nil
}

// plant fills in the tree.
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

// Tree is where the exports hang.
func (t *Table) Tree() *Tree { return &t.current.Load().tree }

// All are the exports, those with the longest names first.
func (t *Table) All() []*Export { return t.current.Load().sorted }

// ByID finds an export by the identity in its handles, or nil. One that is a mount may be
// asleep: it has its options, and Awake wakes it.
func (t *Table) ByID(id uint32) *Export { return t.current.Load().find(id) }

func (s *set) find(id uint32) *Export {
	if e := s.byID[id]; e != nil {
		return e
	}
	if m := s.mounts.byID[id]; m != nil {
		return m.now()
	}
	return nil
}

// Resolve finds the export that a mount path belongs to, the closest where
// several contain it, and the names to walk from the export's root.
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

// idOf is an export's identity: 32 bits of its name's digest, never 0.
func idOf(name string) uint32 {
	sum := sha256.Sum256([]byte("nfsrdmad export " + name))
	return max(binary.BigEndian.Uint32(sum[:]), 1)
}
