package exports

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// ErrNoExport says that the configuration has no export with the given name.
var ErrNoExport = errors.New("no such export")

// errStopped is the fault of an export that the administrator has stopped.
var errStopped = errors.New("stopped by the administrator: 'nfsrdmad exports start' serves it again")

// A Stopped describes an export that is not served because of Stop.
type Stopped struct {
	Name, Path string
	// Others are the names of the exports, and of the mounts below exports, that are served and keep the
	// mount of the export's directory in use.
	Others []string
}

// Stop ends the serving of the export with a name, until Start. Later calls get the error of a removed export
// (NFS3ERR_STALE, NFS4ERR_STALE), and what clients hold by the export is revoked. Neither a change of the configuration
// nor a restart serves it again, unless the configuration does not have the export any more; then the order is forgotten.
// If the order cannot be recorded, it holds until the end of the daemon all the same: see Unrecorded.
//
// Stop returns when its file system, and the mounts below it, are closed, so that the directory can be unmounted unless
// Others use it. If ctx ends first, because calls hang in the file system, the export is not served all the same, and
// the file system is closed when they end. Stop of a stopped export waits likewise.
func (o *Offer) Stop(ctx context.Context, name string) (s Stopped, err error) {
	o.mu.Lock()
	i := o.indexLocked(name)
	if i < 0 {
		o.mu.Unlock()
		return s, ErrNoExport
	}
	w := o.wanted[i]
	s.Name, s.Path = w.name, w.Path.Path
	ending := o.set.mountsBelow(name)
	var dropped []<-chan struct{}
	if !w.stopped {
		if l := o.locationsLocked()[i]; l != nil {
			w.at = l
		}
		dropped = []<-chan struct{}{o.dropResult(w), o.dropNow(w)}
		w.stopped, w.err, w.told = true, nil, ""
		o.log.Warn(logline.ExportStopped, zap.String("export", name), zap.String("path", s.Path))
	}
	_, err = o.applyLocked() // of a stopped export it records the order, if that has failed before
	if w.at != nil {
		s.Others = o.usersLocked(w.at.mount)
	}
	o.mu.Unlock()
	if err != nil {
		return s, err
	}
	for _, closed := range slices.Concat(dropped, ending(), o.set.left(name)) {
		select {
		case <-closed:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
	return s, nil
}

// Start serves an export again that was stopped, or tries again to open the directory of one that is at fault. It waits
// for the directory as Serve does, and returns what is wrong with it. Unrecorded says whether the next start knows of the
// order.
func (o *Offer) Start(ctx context.Context, name string) error {
	o.mu.Lock()
	i := o.indexLocked(name)
	if i < 0 {
		o.mu.Unlock()
		return ErrNoExport
	}
	w := o.wanted[i]
	if w.now != nil && w.err == nil {
		o.recordLocked()
		o.mu.Unlock()
		return nil
	}
	if w.stopped {
		w.stopped = false
		o.recordLocked()
		o.log.Warn(logline.ExportStarted, zap.String("export", name), zap.String("path", w.Path.Path))
	}
	p := o.beginLocked([]*wanted{w})
	o.mu.Unlock()
	if _, err := o.finish(ctx, p); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := o.indexLocked(name); i >= 0 {
		return o.wanted[i].err
	}
	return ErrNoExport // removed meanwhile
}

// indexLocked returns the index of the export with a name, or -1.
func (o *Offer) indexLocked(name string) int {
	return slices.IndexFunc(o.wanted, func(w *wanted) bool { return w.name == name })
}

// usersLocked returns the names of the exports and mounts that are served from a mount, by its ID.
func (o *Offer) usersLocked(mount uint64) (names []string) {
	for i, l := range o.locationsLocked() {
		if l != nil && l.mount == mount {
			names = append(names, o.wanted[i].name)
		}
	}
	for _, m := range o.set.Table.Mounts() {
		if m.ID == mount && m.Awake() != nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// mountsBelow returns a function that ends those mounts below an export that are not in the table any more, of those
// that are in it or open now, and returns channels, which are closed when the mounts are. An earlier stop that gave up
// may have left mounts that are open and not in the table.
func (s *Set) mountsBelow(name string) func() []<-chan struct{} {
	before := slices.Concat(s.Table.Mounts(), s.mounts.opened())
	return func() (closed []<-chan struct{}) {
		now := s.Table.Mounts()
		for _, m := range before {
			if m.Top.Name == name && !slices.Contains(now, m) {
				closed = append(closed, m.End())
			}
		}
		return closed
	}
}

// left returns a channel for each removed or replaced export of a name that calls still use. It is closed when the file
// system of the export is.
func (s *Set) left(name string) (closed []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leaving {
		if l.Name == name {
			closed = append(closed, l.closed)
		}
	}
	return closed
}
