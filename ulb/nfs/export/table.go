package export

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
)

// A Table is the set of exports of a server, and the key that seals their
// handles. Its methods may be called from any goroutine.
type Table struct {
	seal    *sealer
	current atomic.Pointer[set]
}

type set struct {
	byID   map[uint32]*Export
	sorted []*Export // by descending length of name: the first match is the closest
}

// NewTable returns an empty table whose handles are sealed with key, 32 bytes
// that nobody else knows and that outlive the process.
func NewTable(key [KeySize]byte) *Table {
	t := &Table{seal: newSealer(key)}
	t.current.Store(&set{})
	return t
}

// Replace makes exports the table's content. It fills in each ID.
func (t *Table) Replace(exports []*Export) error {
	s := &set{byID: make(map[uint32]*Export, len(exports))}
	for _, e := range exports {
		if !strings.HasPrefix(e.Name, "/") || path.Clean(e.Name) != e.Name {
			return fmt.Errorf("export name %q is not a clean absolute path such as %q", e.Name, path.Clean("/"+e.Name))
		}
		e.ID = idOf(e.Name)
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
	t.current.Store(s)
	return nil
}

// All are the exports, those with the longest names first.
func (t *Table) All() []*Export { return t.current.Load().sorted }

// ByID finds an export by the identity in its handles, or nil.
func (t *Table) ByID(id uint32) *Export { return t.current.Load().byID[id] }

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
