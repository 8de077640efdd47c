package exports

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// errEnding says that the exports cannot be changed any more.
var errEnding = errors.New("the server ends")

// A Set has a server's exports: those in its table, and those that were removed from the table and
// that calls still use. It closes the file system of a removed export after the last of these
// calls.
type Set struct {
	// Table has the exports that the server serves.
	Table *export.Table

	log         *zap.Logger
	filesystems *Filesystems // nil if the exports have file systems of their own
	mounts      *mounts      // the mounts below exports; nil if filesystems is nil

	mu      sync.Mutex
	now     []*export.Export
	leaving []*leaving
	ended   bool // End was called
}

// NewSet returns a Set without exports. fs is nil if the exports have file systems of their own, as
// in a program that embeds the server.
func NewSet(log *zap.Logger, table *export.Table, fs *Filesystems) *Set {
	s := &Set{Table: table, log: log, filesystems: fs}
	if fs != nil {
		s.mounts = newMounts(log, table, fs)
	}
	return s
}

// A leaving is an export that was removed from the table, and whose calls may still run.
type leaving struct {
	*export.Export
	closed chan struct{} // closed when its file system is closed, or is left open for other exports
	err    error         // the error of closing it
}

// A Change describes the difference between two lists of exports. It has the exports' names.
type Change struct{ Added, Replaced, Removed []string }

// Replace replaces the list of exports. An export that is unchanged stays as it is. If an export is
// replaced or removed, calls that began with it complete with it, and later calls find the new
// export, or none. Replace takes over the file systems of new exports, even if it fails, and closes
// those that are not needed.
func (s *Set) Replace(exports []*export.Export) (Change, error) {
	c, unused, err := s.swap(exports)
	if err == nil && s.mounts != nil {
		s.mounts.exportsChanged()
	}
	return c, errors.Join(err, closeAll(unused, s.filesystems))
}

// has reports whether e is one of the present exports.
func (s *Set) has(e *export.Export) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.now, e)
}

// named returns the present export with a name, or nil.
func (s *Set) named(name string) *export.Export {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.now {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// leaveOut tells the Set which exports of the configuration it does not get with the next Replace.
func (s *Set) leaveOut(out []leftOut) { s.mounts.leaveOut(out) }

// swap replaces the list of exports. unused has the new exports that the Set does not use,
// because it keeps an equal export that it has already, or because swap failed.
func (s *Set) swap(exports []*export.Export) (c Change, unused []*export.Export, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew := slices.DeleteFunc(slices.Clone(exports), func(e *export.Export) bool { return slices.Contains(s.now, e) })
	if s.ended {
		return c, isNew, errEnding
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
		return Change{}, isNew, err
	}
	s.now = next
	for _, e := range gone {
		if !slices.Contains(c.Replaced, e.Name) {
			c.Removed = append(c.Removed, e.Name)
		}
		s.retireLocked(e)
	}
	return c, unused, nil
}

// closeAll calls LetGo for the file systems of exports.
func closeAll(exports []*export.Export, fs *Filesystems) error {
	var errs []error
	for _, e := range exports {
		errs = append(errs, fs.LetGo(e.FS))
	}
	return errors.Join(errs...)
}

// and returns the changes of c, and then those of more.
func (c Change) and(more Change) Change {
	return Change{append(c.Added, more.Added...), append(c.Replaced, more.Replaced...), append(c.Removed, more.Removed...)}
}

// retireLocked starts a goroutine that waits until no call uses an export that was removed from the
// table, and then calls LetGo for its file system.
func (s *Set) retireLocked(e *export.Export) {
	l := &leaving{Export: e, closed: make(chan struct{})}
	s.leaving = append(s.leaving, l)
	idle := e.Retire()
	go func() {
		<-idle
		s.revoke(e)
		l.err = s.filesystems.LetGo(e.FS)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leaving = slices.DeleteFunc(s.leaving, func(other *leaving) bool { return other == l })
		close(l.closed)
		if !s.ended { // otherwise the caller of End waits for l, and reports the error
			s.log.Info(logline.ExportClosed, zap.String("export", e.Name), zap.Error(l.err))
		}
	}()
}

// revoke takes away what clients hold by an export that no call uses any more, unless an export of the same
// name shows the same file system: the clients then go on to use their handles. Another export that shows
// the file system has other handles.
func (s *Set) revoke(e *export.Export) {
	if s.filesystems == nil || s.filesystems.RevokeExport == nil {
		return
	}
	s.mu.Lock()
	stays := slices.ContainsFunc(s.now, func(now *export.Export) bool { return now.ID == e.ID && now.FS == e.FS })
	s.mu.Unlock()
	if !stays {
		s.filesystems.RevokeExport(e)
	}
}

// All returns all exports, including removed exports that calls still use, and the exports of open
// mounts.
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

// Names returns the names of the exports whose file system has the given lane. A lane is a key for
// the storage behind a file system (vfs.FileSystem).
func (s *Set) Names(lane any) (names []string) {
	for _, e := range s.All() {
		if e.FS.Lane() == lane && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// A Closing is an export, or a mount below one, that a server which ends has to close.
type Closing struct {
	Name string
	What string // what the log adds to the name
	Lane any
	// Close closes the file system, unless others use it, and returns when it is closed.
	Close func() error
}

// End makes later changes fail, and prevents the opening of further mounts below exports. It returns
// what the caller has to close: the mounts that are open, or being opened or closed, the present
// exports, and the removed exports that are still in use.
func (s *Set) End() (all []Closing) {
	for _, m := range s.mounts.stop() {
		all = append(all, Closing{m.Name, ", a mount below another", m.Lane(), func() error {
			<-m.End()
			return nil
		}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, x := range s.now {
		all = append(all, Closing{x.Name, "", x.FS.Lane(), func() error { return s.filesystems.LetGo(x.FS) }})
	}
	for _, l := range s.leaving {
		all = append(all, Closing{l.Name, ", as it was before a change", l.FS.Lane(), func() error {
			<-l.closed
			return l.err
		}})
	}
	return all
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

// WantKerberos reports whether any export accepts Kerberos.
func (s *Set) WantKerberos() bool { return slices.ContainsFunc(s.Table.All(), WantsKerberos) }

// WantsKerberos reports whether an export accepts Kerberos, from all clients or from some.
func WantsKerberos(e *export.Export) bool {
	gss := func(all []export.Security) bool {
		return slices.ContainsFunc(all, func(s export.Security) bool { return s.GSSService() != 0 })
	}
	return gss(e.Security) || slices.ContainsFunc(e.Networks, func(n export.NetworkSecurity) bool { return gss(n.Security) })
}

// CrossMount reports whether any export includes the file systems mounted below it.
func (s *Set) CrossMount() bool {
	return slices.ContainsFunc(s.Table.All(), func(e *export.Export) bool { return e.CrossMount })
}
