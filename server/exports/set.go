package exports

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// errEnding: exports cannot be changed any more.
var errEnding = errors.New("the server ends")

// A Set is a server's exports: those in its table, and those that have left it and that calls
// still use. A file system is closed when nothing uses it any more.
type Set struct {
	// Table has the exports that are served.
	Table *export.Table

	log         *zap.Logger
	filesystems *Filesystems // nil if the exports bring their own file systems
	mounts      *mounts      // the mounts below exports; nil if filesystems is nil

	mu      sync.Mutex
	now     []*export.Export
	leaving []*Leaving
	ended   bool // no more changes
}

// NewSet makes a Set without exports. fs is nil if the exports bring their own file systems.
func NewSet(log *zap.Logger, table *export.Table, fs *Filesystems) *Set {
	s := &Set{Table: table, log: log, filesystems: fs}
	if fs != nil {
		s.mounts = newMounts(log, table, fs)
	}
	return s
}

// A Leaving export was taken out of the table.
type Leaving struct {
	*export.Export
	closed chan struct{} // closed once its file system is closed, or left to other exports
	err    error         // the error of closing it
}

// Wait returns when the file system is closed, with the error of closing it.
func (l *Leaving) Wait() error {
	<-l.closed
	return l.err
}

// A Change describes the difference between two lists of exports, by their names.
type Change struct{ Added, Replaced, Removed []string }

// Replace replaces the list of exports. An export that is unchanged stays as it is. An
// export that is replaced or removed is retired: running calls finish with it, and later calls
// find the new export, or none. The Set owns the file systems of exports from then on, even on an error, and
// closes those that are not needed.
func (s *Set) Replace(exports []*export.Export) (Change, error) {
	c, unused, err := s.swap(exports)
	if err == nil && s.mounts != nil {
		s.mounts.exportsChanged()
	}
	return c, errors.Join(err, closeAll(unused, s.filesystems))
}

// swap replaces the list of exports. unused are the exports among the new ones that the Set did
// not take, because it keeps an equal one, or because swap failed.
func (s *Set) swap(exports []*export.Export) (c Change, unused []*export.Export, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return c, exports, errEnding
	}
	next, gone := make([]*export.Export, 0, len(exports)), slices.Clone(s.now)
	for _, e := range exports {
		i := slices.IndexFunc(gone, func(was *export.Export) bool { return was.Name == e.Name })
		switch {
		case i < 0:
			c.Added = append(c.Added, e.Name)
		case gone[i] == e:
			gone = slices.Delete(gone, i, i+1)
		case gone[i].Same(e):
			unused, e = append(unused, e), gone[i]
			gone = slices.Delete(gone, i, i+1)
		default:
			c.Replaced = append(c.Replaced, e.Name)
		}
		next = append(next, e)
	}
	if err := s.Table.Replace(next); err != nil {
		return Change{}, exports, err
	}
	s.now = next
	for _, e := range gone {
		if !slices.Contains(c.Replaced, e.Name) {
			c.Removed = append(c.Removed, e.Name)
		}
		s.retire(e)
	}
	return c, unused, nil
}

// retire waits in the background until no call uses an export that has left the table, and then
// lets go of its file system. The caller holds s.mu.
func (s *Set) retire(e *export.Export) {
	l := &Leaving{Export: e, closed: make(chan struct{})}
	s.leaving = append(s.leaving, l)
	idle := e.Retire()
	go func() {
		<-idle
		l.err = s.filesystems.LetGo(e.FS)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leaving = slices.DeleteFunc(s.leaving, func(other *Leaving) bool { return other == l })
		close(l.closed)
		if !s.ended { // else the end of the server waits for it and reports it
			s.log.Info("export closed that was replaced or removed", zap.String("export", e.Name), zap.Error(l.err))
		}
	}()
}

// All returns all exports, including those that are leaving, and open mounts.
func (s *Set) All() []*export.Export {
	all := s.mounts.awake()
	s.mu.Lock()
	defer s.mu.Unlock()
	all = append(all, s.now...)
	for _, l := range s.leaving {
		all = append(all, l.Export)
	}
	return all
}

// Names returns the names of the exports with this lane, or nil.
func (s *Set) Names(lane any) (names []string) {
	for _, e := range s.All() {
		if e.FS.Lane() == lane && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// End forbids changes. It returns the exports to close, and those that are leaving, to wait for.
func (s *Set) End() (now []*export.Export, left []*Leaving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.now, slices.Clone(s.leaving)
}

// Fields returns a change as fields of a log line.
func (c *Change) Fields() (fields []zap.Field) {
	for _, of := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"replaced", c.Replaced}, {"removed", c.Removed}} {
		if len(of.names) > 0 {
			fields = append(fields, zap.Strings(of.what, of.names))
		}
	}
	return fields
}

// EndMounts forbids further opening of mounts below exports. It returns the mounts that are open,
// or being opened or closed.
func (s *Set) EndMounts() []*export.Mount { return s.mounts.end() }

// WantKerberos reports whether an export accepts Kerberos.
func (s *Set) WantKerberos() bool {
	gss := func(all []export.Security) bool {
		return slices.ContainsFunc(all, func(s export.Security) bool { return s.GSSService() != 0 })
	}
	return slices.ContainsFunc(s.Table.All(), func(e *export.Export) bool {
		return gss(e.Security) || slices.ContainsFunc(e.Networks, func(n export.NetworkSecurity) bool { return gss(n.Security) })
	})
}
