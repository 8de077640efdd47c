package exports

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

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
	if w.result = &is; w.stopped {
		o.dropResult(w)
	}
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
		o.log.Error(logline.DirectoriesUnserved, zap.Error(err))
	case len(c.Fields()) > 0:
		o.log.Info(logline.DirectoriesOpened, c.Fields()...)
	}
}

// drop lets go of a file system that show has returned, or nil. The channel is closed when that is done.
func (o *Offer) drop(fs vfs.FileSystem) (done <-chan struct{}) {
	gone := make(chan struct{})
	if is, _ := fs.(*local.FS); is == nil {
		close(gone)
		return gone
	}
	go func() {
		defer close(gone)
		o.filesystems.LetGo(fs)
	}()
	return gone
}

// dropResult forgets the result of w, and lets go of its file system.
func (o *Offer) dropResult(w *wanted) (done <-chan struct{}) {
	var fs *local.FS
	if w.result != nil {
		fs = w.result.fs
	}
	w.result = nil
	return o.drop(fs)
}

// dropNow forgets the export of w. If the Set does not have it, because applyLocked has not run since inheritLocked
// made it, dropNow lets go of its file system; otherwise the Set does.
func (o *Offer) dropNow(w *wanted) (done <-chan struct{}) {
	e := w.now
	w.now = nil
	if e == nil || o.set.has(e) {
		return o.drop(nil)
	}
	return o.drop(e.FS)
}

// applyLocked uses the results of opening directories, and updates the Set, and the stored roots and stops.
func (o *Offer) applyLocked() (Change, error) {
	var fresh []*wanted
	for _, w := range o.wanted {
		if w.stopped {
			o.dropResult(w)
		}
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
			o.dropNow(w)
			w.now, w.root, w.at, w.result = w.export(r.fs), r.root, r.at, nil
		}
		if w.now == nil {
			why := "whose directory cannot be opened"
			if w.stopped {
				why = "which the administrator has stopped"
			}
			out = append(out, leftOut{w.as, w.Path.Path, why})
			continue
		}
		all, served[w.root.Path] = append(all, w.now), w.root
	}
	o.set.leaveOut(out)
	c, err := o.set.Replace(all)
	for _, w := range o.wanted {
		if w.now != nil {
			w.now = o.set.named(w.name) // the Set keeps its own export if that is the same, and has let go of this one
		}
	}
	if err != nil {
		return c, err
	}
	if err := served.update(o.filesystems.state); err != nil {
		o.log.Error(logline.DirectoriesUnrecorded, zap.Error(err))
	}
	o.recordLocked()
	var faults []Fault
	for i, w := range o.wanted {
		o.tell(w)
		switch {
		case w.stopped:
			faults = append(faults, Fault{Name: w.name, Err: o.stopFaultLocked(), Stopped: true, Index: i})
		case w.err != nil:
			_, late := errors.AsType[*unanswered](w.err)
			faults = append(faults, Fault{Name: w.name, Err: w.err, Served: w.now != nil, Late: late, Index: i})
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
				o.dropResult(w)
				at[out] = nil
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
		o.log.Info(logline.DirectoryBack, fields[:1]...)
		return
	case w.now == nil:
		o.log.Error(logline.LeftOut, fields...)
	case lost:
		o.log.Error(logline.DirectoryExchanged, fields...)
	default:
		o.log.Error(logline.DirectoryUnopened, fields...)
	}
	w.told = w.err.Error()
}
