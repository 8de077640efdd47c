package export

import (
	"path"
	"slices"
	"strings"
	"syscall"
)

// mounts holds the mounts below the exports of a Table. It does not change: SetMounts and Replace
// make a new one.
type mounts struct {
	byID   map[uint32]*Mount
	byName map[string]*Mount
	// at holds the name of the mount for each directory that is a mount point. If an export has the
	// same name, there is no such mount, and the mount point leads into that export.
	at map[mountPoint]string
}

// A mountPoint is a directory: the name of the export or mount that it is in, and its
// absolute path on this machine.
type mountPoint struct{ in, path string }

var noMounts = &mounts{}

// SetMounts sets the mounts below exports. It opens no file system. It ends the earlier mounts that
// are not in found (see Mount.End), and returns them. If several mounts in found have the same
// name, the first counts. If one of the Table's exports has the name of a mount, SetMounts makes no
// Mount for it: the mount point leads into that export.
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
		if old.byID[m.id] != nil || next.byID[m.id] != nil {
			m = newMount(m.Found, opener)
			m.Refused = "another export or mount has the same handle identity: mount it elsewhere, or export it by itself under another name"
		} else {
			next.byID[m.id] = m
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

// cloned returns a copy of f whose strings share no memory with the strings of f, so that a Mount
// does not keep alive the text that f was read from.
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

// inherit copies mounts from the earlier set to s. It leaves out a mount if its Top is no longer
// exported or no longer crosses mounts, or if an export has taken its name. The mounts keep
// their old options until the next SetMounts.
func (s *set) inherit(before *set) {
	s.mounts = noMounts
	if len(before.mounts.byName) == 0 {
		return
	}
	next := &mounts{byID: make(map[uint32]*Mount), byName: make(map[string]*Mount), at: before.mounts.at}
	for name, m := range before.mounts.byName {
		if top := s.named(m.topName); top == nil || !top.CrossMount || s.named(name) != nil {
			continue
		}
		next.byName[name] = m
		if s.byID[m.id] == nil && before.mounts.byID[m.id] == m {
			next.byID[m.id] = m
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

// Way returns the path to the mount m. from is the export in which m is mounted: one of the Table's
// exports, or the export of another mount. names are the components of the path from the root of
// that export to the directory that m covers. If that other mount is closed, calls cannot enter its
// export. from is nil if the Table has no such export any more.
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
