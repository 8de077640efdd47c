package exports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Times for opening the directories of exports.
const (
	// openWithin is the time for which Serve and Retry wait for the directories. If one takes longer,
	// the export is served as soon as its directory is open.
	openWithin = 5 * time.Second
	// soon is the time after which Serve serves what it can, if some directories are not open yet.
	soon = 200 * time.Millisecond
)

// An Offer has the exports of the configuration. It opens their directories, each by itself, and puts
// those that are open into a Set. An export whose directory cannot be opened is left out, and the
// others do not wait for it.
type Offer struct {
	set         *Set
	filesystems *Filesystems
	log         *zap.Logger
	// changed is called with the exports that are at fault, when they have changed. It must not block.
	changed func([]Fault)

	mu     sync.Mutex
	begun  bool      // Begin was called
	faults []Fault   // what changed was called with
	wanted []*wanted // in the order of the configuration
	// busy has the directories that are being opened. So at most one goroutine waits for a directory
	// that does not answer.
	busy map[key]bool
}

// A key identifies an export's directory in the configuration.
type key struct{ name, path string }

// A wanted is an export of the configuration.
type wanted struct {
	config.Export
	name string
	// as has the export's name and options.
	as *export.Export
	// now is the export in the Set, or nil if it is left out. root and at describe its directory.
	now  *export.Export
	root root
	at   *location
	// joined has the openings that wait for an earlier one to open the directory.
	joined []*opening
	// result is the latest result of opening the directory, until applyLocked has used it.
	result *opened
	// err says why the directory could not be opened at the latest attempt, and told what the log says
	// of that.
	err  error
	told string
}

func (w *wanted) key() key { return key{w.name, w.Path.Path} }

// A Fault is an export whose directory cannot be opened.
type Fault struct {
	Name string
	Err  error
	// Served says that the directory which the export had before is still served.
	Served bool
	// Index is the export's index in the configuration.
	Index int
}

// NewOffer returns an Offer without exports, which puts exports into set. fs is the Filesystems of set.
// changed is called when other exports than before are at fault, or for other reasons. It must not
// block or call the Offer.
func NewOffer(log *zap.Logger, set *Set, fs *Filesystems, changed func([]Fault)) *Offer {
	return &Offer{set: set, filesystems: fs, log: log, changed: changed, busy: make(map[key]bool)}
}

// Begin logs the faults, from now on, and those that there are already. The server calls it when it is
// sure to start: until then the error of the start says what is wrong.
func (o *Offer) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = true
	for _, w := range o.wanted {
		o.tell(w)
	}
}

// Faults returns the exports whose directories could not be opened at the latest attempt.
func (o *Offer) Faults() []Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.faults
}

// Serve makes the exports of a configuration those of the Set. It returns an error, and changes
// nothing, if the configuration contradicts itself. Otherwise it serves the exports whose directories it
// can open; Faults returns the others. If an export was served before by the same name and path, its
// present directory is served with the new options even if the directory cannot be opened now.
//
// Serve waits for directories for openWithin at most, or until ctx ends. New options hold, and
// removed exports are not served any more, after soon at most. A directory that is open later is
// served from then on.
func (o *Offer) Serve(ctx context.Context, all []config.Export) (c Change, err error) {
	next := make([]*wanted, len(all))
	described := make([]*export.Export, len(all))
	for i := range all {
		if described[i], err = describe(&all[i]); err != nil {
			return c, err
		}
		next[i] = &wanted{Export: all[i], name: described[i].Name, as: described[i]}
	}
	if err := o.set.Table.Check(described); err != nil {
		return c, err
	}
	o.mu.Lock()
	first := len(o.wanted) == 0
	if err := o.inheritLocked(next); err != nil {
		o.mu.Unlock()
		return c, err
	}
	p := o.beginLocked(next)
	o.mu.Unlock()
	if !first && !p.wait(ctx.Done(), soon) {
		o.mu.Lock()
		c, err = o.applyLocked()
		o.mu.Unlock()
		if err != nil {
			return c, err
		}
	}
	more, err := o.finish(ctx, p)
	return c.and(more), err
}

// Hanging waits until the directories that are being opened are open or have failed, for the given time
// at most. It returns the paths of those that have not answered.
func (o *Offer) Hanging(within time.Duration) (paths []string) {
	o.mu.Lock()
	p := o.beginLocked(slices.DeleteFunc(slices.Clone(o.wanted), func(w *wanted) bool { return !o.busy[w.key()] }))
	o.mu.Unlock()
	p.wait(nil, within)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.late = true
	o.toldLate(o.applyLocked())
	for k := range o.busy {
		paths = append(paths, k.path)
	}
	slices.Sort(paths)
	return paths
}

// Retry tries again to open the directories of the exports that are left out, and of those whose
// present directory is served although another one may be at its path.
func (o *Offer) Retry(ctx context.Context) {
	o.mu.Lock()
	p := o.beginLocked(slices.DeleteFunc(slices.Clone(o.wanted), func(w *wanted) bool { return w.err == nil }))
	o.mu.Unlock()
	o.toldLate(o.finish(ctx, p))
}

// finish waits until p ends, for openWithin at most, and serves what p has opened.
func (o *Offer) finish(ctx context.Context, p *opening) (Change, error) {
	p.wait(ctx.Done(), openWithin)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.late = true
	if ctx.Err() == nil {
		for _, w := range o.wanted {
			if o.busy[w.key()] {
				w.err = fmt.Errorf("directory %s has not answered for %v: see whether its disk or file server works", w.Path.Path, openWithin)
			}
		}
	}
	return o.applyLocked()
}

// inheritLocked makes next the wanted exports. An export that is served already, by the same name and
// path, stays, with its new options. It returns an error if the new options make one of these exports
// open to the clients of another one.
func (o *Offer) inheritLocked(next []*wanted) error {
	before := o.wanted
	was := make([]*wanted, len(next))
	at := make([]*location, len(next))
	for j, l := range o.locationsLocked() {
		i := slices.IndexFunc(next, func(w *wanted) bool { return w.key() == before[j].key() })
		if i >= 0 && before[j].now != nil {
			was[i], at[i] = before[j], l
		}
	}
	all := make([]config.Export, len(next))
	for i, w := range next {
		all[i] = w.Export
	}
	findReached(all, at)
	for i, inner := range next {
		for j, outer := range next {
			if i == j || at[i] == nil || at[j] == nil || was[i].as.Same(inner.as) && was[j].as.Same(outer.as) {
				continue
			}
			if err := opens(outer.as, inner.as, at[j], at[i]); err != nil {
				return err
			}
		}
	}
	for i, w := range next {
		if was[i] == nil {
			continue
		}
		w.now, w.root, w.at = was[i].now, was[i].root, was[i].at
		if e := w.export(w.now.FS); !e.Same(w.now) && o.filesystems.again(e.FS) {
			w.now = e
		}
	}
	o.wanted = next
	return nil
}

// export returns a new export of the file system fs, with the name and options of w.
func (w *wanted) export(fs vfs.FileSystem) *export.Export {
	e, _ := describe(&w.Export) // Serve has described it without an error
	e.FS = fs
	return e
}

// ended takes the result of opening the directory of w. If w is not wanted any more, it lets go of the
// directory, and opens it anew if the present configuration has it, too.
func (o *Offer) ended(p *opening, w *wanted, is opened) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, w.key())
	if !slices.Contains(o.wanted, w) {
		o.drop(is.fs)
		p.endedLocked()
		if i := slices.IndexFunc(o.wanted, func(now *wanted) bool { return now.key() == w.key() }); i >= 0 {
			o.againLocked(o.wanted[i])
		}
		return
	}
	w.result = &is
	late := p.lateLocked()
	p.endedLocked()
	for _, j := range w.joined {
		late = late && j.lateLocked()
		j.endedLocked()
	}
	w.joined = nil
	if late {
		c, err := o.applyLocked()
		o.toldLate(c, err)
	}
}

// againLocked opens the directory of w for the openings that wait for an earlier attempt.
func (o *Offer) againLocked(w *wanted) {
	joined := w.joined
	w.joined = nil
	q := o.beginLocked([]*wanted{w})
	q.late = len(joined) == 0
	for i, j := range joined {
		if i == 0 {
			q.of = j
		} else {
			w.joined = append(w.joined, j)
		}
	}
}

// toldLate logs a change of the served exports for which no caller of Serve waits.
func (o *Offer) toldLate(c Change, err error) {
	switch {
	case errors.Is(err, errEnding):
	case err != nil:
		o.log.Error("exports that have been opened are not served", zap.Error(err))
	case len(c.Fields()) > 0:
		o.log.Info("directories of exports have been opened", c.Fields()...)
	}
}

// drop lets go of a file system that show has returned, or nil.
func (o *Offer) drop(fs *local.FS) {
	if fs != nil {
		go o.filesystems.LetGo(fs)
	}
}

// applyLocked uses the results of opening directories, and updates the Set and the stored roots.
func (o *Offer) applyLocked() (Change, error) {
	var fresh []*wanted
	for _, w := range o.wanted {
		r := w.result
		if r == nil {
			continue
		}
		switch w.err = r.err; {
		case r.err != nil:
			w.result = nil
		case w.now != nil && w.now.FS == vfs.FileSystem(r.fs):
			w.root, w.at, w.result = r.root, r.at, nil
			o.drop(r.fs) // it has been counted once more
		default:
			fresh = append(fresh, w)
		}
	}
	o.refuseLocked(fresh)
	var all []*export.Export
	var out []leftOut
	served := make(roots)
	for _, w := range o.wanted {
		if r := w.result; r != nil {
			w.now, w.root, w.at, w.result = w.export(r.fs), r.root, r.at, nil
		}
		if w.now == nil {
			out = append(out, leftOut{w.as, w.Path.Path})
			continue
		}
		all, served[w.root.Path] = append(all, w.now), w.root
	}
	o.set.leaveOut(out)
	c, err := o.set.Replace(all)
	if err != nil {
		return c, err
	}
	if err := served.update(o.filesystems.state); err != nil {
		o.log.Error("the directories of exports are not recorded", zap.Error(err))
	}
	var faults []Fault
	for i, w := range o.wanted {
		o.tell(w)
		if w.err != nil {
			faults = append(faults, Fault{w.name, w.err, w.now != nil, i})
		}
	}
	if !slices.EqualFunc(faults, o.faults, func(a, b Fault) bool {
		return a.Name == b.Name && a.Served == b.Served && a.Err.Error() == b.Err.Error()
	}) {
		o.faults = faults
		o.changed(faults)
	}
	return c, nil
}

// refuseLocked leaves out those of the exports fresh, which have just been opened, that would be open
// to the clients of another export, or would open another export to their clients.
func (o *Offer) refuseLocked(fresh []*wanted) {
	if len(fresh) == 0 {
		return
	}
	all, at := make([]config.Export, len(o.wanted)), o.locationsLocked()
	for i, w := range o.wanted {
		all[i] = w.Export
		if w.result != nil {
			at[i] = w.result.at.copied()
		}
	}
	findReached(all, at)
	for i, inner := range o.wanted {
		for j, outer := range o.wanted {
			if i == j || at[i] == nil || at[j] == nil {
				continue
			}
			out := j // it would open the other one to its clients
			if outer.result == nil {
				out = i
			}
			w := o.wanted[out]
			if w.result == nil {
				continue // both have been served before
			}
			if w.err = opens(outer.as, inner.as, at[j], at[i]); w.err != nil {
				o.drop(w.result.fs)
				w.result, at[out] = nil, nil
			}
		}
	}
}

// locationsLocked returns where the directories of the wanted exports are; a location is nil if the
// export is left out.
func (o *Offer) locationsLocked() []*location {
	at := make([]*location, len(o.wanted))
	mounts, _ := mountinfo.Read() // without it, each directory is taken to be where it was opened
	for i, w := range o.wanted {
		if w.now != nil {
			at[i] = w.at.copied()
			at[i].update(w.now.FS, mounts)
		}
	}
	return at
}

// tell logs why an export is left out, or that it is not any more.
func (o *Offer) tell(w *wanted) {
	fields := []zap.Field{zap.String("export", w.name), zap.Error(w.err)}
	_, lost := errors.AsType[*lostRoot](w.err)
	switch {
	case !o.begun, w.err == nil && w.told == "", w.err != nil && w.err.Error() == w.told:
		return
	case w.err == nil:
		w.told = ""
		o.log.Info("the directory of an export can be opened again, and is served", fields[:1]...)
		return
	case w.now == nil:
		o.log.Error("an export is left out; the daemon tries again every minute", fields...)
	case lost:
		o.log.Error("an export's directory is not the one that it was: the one before is still served", fields...)
	default:
		o.log.Error("an export's directory cannot be opened at its path: the one before is still served", fields...)
	}
	w.told = w.err.Error()
}
