package exports

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
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

	// recalled are the names of the exports that were stopped before the start. The first Serve uses them.
	recalled []string
	// recorded are the names of the stopped exports that the state directory has. unrecorded is nil, or why it could not
	// be written at the latest attempt; then it may have other names. write is durable.Write. A test has one that fails.
	recorded   []string
	unrecorded error
	write      func(file string, content []byte) error
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
	// stopped is true if the administrator has stopped the export (Offer.Stop). Its directory is not opened then.
	stopped bool
}

func (w *wanted) key() key { return key{w.name, w.Path.Path} }

// A Fault is an export whose directory cannot be opened.
type Fault struct {
	Name string
	Err  error
	// Served says that the directory which the export had before is still served.
	Served bool
	// Late says that the directory has not answered yet, and Stopped that the administrator has stopped the export.
	Late, Stopped bool
	// Index is the export's index in the configuration.
	Index int
}

// An unanswered is the error that a directory has not answered yet.
type unanswered struct{ path string }

func (e *unanswered) Error() string {
	return fmt.Sprintf("directory %s has not answered for %v: see whether its disk or file server works", e.path, openWithin)
}

// NewOffer returns an Offer without exports, which puts exports into set. fs is the Filesystems of set.
// changed is called when other exports than before are at fault, or for other reasons. It must not
// block or call the Offer.
func NewOffer(log *zap.Logger, set *Set, fs *Filesystems, changed func([]Fault)) *Offer {
	return &Offer{set: set, filesystems: fs, log: log, changed: changed, busy: make(map[key]bool), write: durable.Write}
}

// Begin logs the faults, from now on, and those that there are already, and which exports are still stopped. The server
// calls it when the exports let it start: until then the error of the start says what is wrong.
func (o *Offer) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = true
	for _, w := range o.wanted {
		if o.tell(w); w.stopped {
			o.log.Warn(logline.StillStopped, zap.String("export", w.name), zap.String("path", w.Path.Path), zap.String("remedy", "'nfsrdmad exports start "+w.name+"' serves it again"))
		}
	}
	o.recordLocked()
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
	ended := p.wait(ctx.Done(), openWithin)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.late = true
	if !ended && ctx.Err() == nil {
		for _, w := range p.which { // another opening may have just begun with others
			if o.busy[w.key()] && !w.stopped {
				w.err = &unanswered{w.Path.Path}
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
		if j := o.indexLocked(w.name); j >= 0 && before[j].stopped {
			w.stopped, w.at = true, before[j].at
		}
		w.stopped = w.stopped || slices.Contains(o.recalled, w.name)
		if was[i] == nil {
			continue
		}
		w.now, w.root, w.at = was[i].now, was[i].root, was[i].at
		if e := w.export(w.now.FS); !e.Same(w.now) && o.filesystems.again(e.FS) {
			w.now = e
		}
	}
	for _, w := range before {
		o.dropResult(w) // next opens the directory anew
		if !slices.ContainsFunc(next, func(n *wanted) bool { return n.now == w.now }) {
			o.dropNow(w)
		}
	}
	o.wanted, o.recalled = next, nil
	return nil
}

// export returns a new export of the file system fs, with the name and options of w.
func (w *wanted) export(fs vfs.FileSystem) *export.Export {
	e, _ := describe(&w.Export) // Serve has described it without an error
	e.FS = fs
	return e
}
