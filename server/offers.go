package server

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// errEnding: exports cannot be changed any more.
var errEnding = errors.New("the server ends")

// offers are a server's exports: those in its table, and those that have left it and that calls
// still use. A file system is closed when nothing uses it any more.
type offers struct {
	log   *zap.Logger
	table *export.Table
	trees *trees // nil if the exports bring their own file systems
	// mounts are the mounts below exports; nil if trees is nil.
	mounts *mounts

	mu      sync.Mutex
	now     []*export.Export
	leaving []*leaving
	ended   bool // no more changes
}

// A leaving export was taken out of the table.
type leaving struct {
	*export.Export
	closed chan struct{} // closed once its file system is closed, or left to other exports
	err    error         // the error of that
}

// wait returns when the file system is closed, with the error of closing it.
func (l *leaving) wait() error {
	<-l.closed
	return l.err
}

// A change describes the difference between two lists of exports, by their names.
type change struct{ added, replaced, removed []string }

// set replaces the list of exports. An export that is unchanged stays as it is. Others that were
// replaced or removed leave: running calls finish with them, and later calls find the new export,
// or none. The offers own the file systems of exports from then on, even on an error, and close
// those that are not needed.
func (o *offers) set(exports []*export.Export) (change, error) {
	c, unused, err := o.swap(exports)
	if err == nil && o.mounts != nil {
		o.mounts.exportsChanged()
	}
	return c, errors.Join(err, closeExports(unused, o.trees))
}

// swap does set, and returns the new exports that turned out not to be needed.
func (o *offers) swap(exports []*export.Export) (c change, unused []*export.Export, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return c, exports, errEnding
	}
	next, gone := make([]*export.Export, 0, len(exports)), slices.Clone(o.now)
	for _, e := range exports {
		i := slices.IndexFunc(gone, func(was *export.Export) bool { return was.Name == e.Name })
		switch {
		case i < 0:
			c.added = append(c.added, e.Name)
		case gone[i] == e:
			gone = slices.Delete(gone, i, i+1)
		case gone[i].Same(e):
			unused, e = append(unused, e), gone[i]
			gone = slices.Delete(gone, i, i+1)
		default:
			c.replaced = append(c.replaced, e.Name)
		}
		next = append(next, e)
	}
	if err := o.table.Replace(next); err != nil {
		return change{}, exports, err
	}
	o.now = next
	for _, e := range gone {
		if !slices.Contains(c.replaced, e.Name) {
			c.removed = append(c.removed, e.Name)
		}
		o.retire(e)
	}
	return c, unused, nil
}

// retire waits in the background until no call uses an export that has left the table, and then
// lets go of its file system. The caller holds o.mu.
func (o *offers) retire(e *export.Export) {
	l := &leaving{Export: e, closed: make(chan struct{})}
	o.leaving = append(o.leaving, l)
	idle := e.Retire()
	go func() {
		<-idle
		l.err = o.trees.letGo(e.FS)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.leaving = slices.DeleteFunc(o.leaving, func(other *leaving) bool { return other == l })
		close(l.closed)
		if !o.ended { // else shutDown waits for it and reports it
			o.log.Info("export closed that was replaced or removed", zap.String("export", e.Name), zap.Error(l.err))
		}
	}()
}

// all returns all exports, including those that are leaving, and open mounts.
func (o *offers) all() []*export.Export {
	all := o.mounts.awake()
	o.mu.Lock()
	defer o.mu.Unlock()
	all = append(all, o.now...)
	for _, l := range o.leaving {
		all = append(all, l.Export)
	}
	return all
}

// names returns the names of the exports with this lane, or nil.
func (o *offers) names(lane any) (names []string) {
	for _, e := range o.all() {
		if e.FS.Lane() == lane && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// end forbids changes. It returns the exports to close, and those that are leaving, to wait for.
func (o *offers) end() (now []*export.Export, left []*leaving) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	return o.now, slices.Clone(o.leaving)
}

// fields returns a change as fields of a log line.
func (c *change) fields() (fields []zap.Field) {
	for _, of := range []struct {
		what  string
		names []string
	}{{"added", c.added}, {"replaced", c.replaced}, {"removed", c.removed}} {
		if len(of.names) > 0 {
			fields = append(fields, zap.Strings(of.what, of.names))
		}
	}
	return fields
}

// setExports makes all the exports of the server: it opens new ones, replaces those whose
// directory or options have changed, and removes the others. On an error nothing has changed.
// Only the start and the running reload call it. It opens directories, which may block.
func (s *Server) setExports(all []config.Export) (change, error) {
	if s.trees == nil {
		return change{}, errors.New("the exports of this server are its program's own")
	}
	o := opening{trees: s.trees, log: s.log, enters: func(string) {}, now: s.offers.table.All()}
	opened, err := o.exports(all)
	if err != nil {
		return change{}, err
	}
	c, err := s.offers.set(opened)
	if err == nil && (len(opened) > 1 || slices.ContainsFunc(opened, func(e *export.Export) bool { return e.CrossMount })) {
		s.pool.LimitGroups(int64(s.cfg.Memory.Ceiling) / 2)
	}
	return c, err
}
