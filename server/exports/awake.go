package exports

import (
	"maps"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

const (
	// mountIdle is the time for which a mount stays open after its last call. As long as it is open,
	// the administrator cannot unmount it. mountTick is the time between two searches for idle
	// mounts.
	mountIdle, mountTick = 10 * time.Second, 2 * time.Second
	// mostAwake is the largest number of mounts that are open at a time. Each needs perMount
	// descriptors.
	mostAwake, perMount = 256, 64
	// mostOpening is the largest number of mounts that are being opened at a time. If a file system
	// does not answer, opening it occupies a thread until it answers.
	mostOpening = 64
)

// shareOf returns the largest number of a limited number of places that one owner may take: half of
// what the others leave, and at least one. So no owner can take the last free place, unless there is
// only one.
func shareOf(limit, others int) int { return max((limit-others)/2, 1) }

// mayOpen reports whether m may be opened now, and if so enters it in w.open as being opened. If as many
// mounts are open as may be, it first closes the one that has been idle for longest, and returns false
// if none is idle.
func (w *mounts) mayOpen(m *export.Mount) bool {
	for {
		w.mu.Lock()
		if w.life.Err() != nil || !w.mayBeginLocked(m) {
			w.mu.Unlock()
			return false
		}
		rivals := w.rivalsLocked(m)
		if len(rivals) == 0 {
			w.open[m] = true
			w.mu.Unlock()
			return true
		}
		w.mu.Unlock()
		var oldest *export.Mount
		var since time.Time
		for _, o := range rivals {
			if at, idle := o.Rested(); idle && (oldest == nil || at.Before(since)) {
				oldest, since = o, at
			}
		}
		if oldest == nil {
			return false
		}
		if closed := oldest.Rest(); closed != nil {
			<-closed
		}
	}
}

// mayBeginLocked reports whether few enough mounts are being opened. File systems of one type and owner
// that do not answer, such as those of an NFS server that is down, keep only their share of mostOpening.
func (w *mounts) mayBeginLocked(m *export.Mount) bool {
	all, alike := 0, 0
	for o, opening := range w.open {
		switch {
		case !opening:
		case o.Kind == m.Kind && o.Owner == m.Owner:
			alike++
			fallthrough
		default:
			all++
		}
	}
	return all < mostOpening && alike < shareOf(mostOpening, all-alike)
}

// rivalsLocked returns the mounts of which one has to be closed before m may be opened, or nil. A user
// of this machine, whose FUSE file systems may stop to answer at any time and then cannot be closed, keeps
// only a share of the mounts that may be open.
func (w *mounts) rivalsLocked(m *export.Mount) []*export.Mount {
	if len(w.open) >= w.most {
		return slices.Collect(maps.Keys(w.open))
	}
	if m.Owner == "" {
		return nil
	}
	var own []*export.Mount
	for o := range w.open {
		if o.Owner == m.Owner {
			own = append(own, o)
		}
	}
	if len(own) < shareOf(w.most, len(w.open)-len(own)) {
		return nil
	}
	return own
}

// InUse implements export.Opener.
func (w *mounts) InUse(fs vfs.FileSystem) bool {
	l, ok := fs.(*local.FS)
	if !ok {
		return false
	}
	open, _ := l.OpenFiles()
	return open > 0
}

// doze closes idle mounts until no mount is open or the server ends.
func (w *mounts) doze() {
	tick := time.NewTicker(mountTick)
	defer tick.Stop()
	for {
		select {
		case <-w.life.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		if w.dozing = len(w.open) > 0; !w.dozing {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for _, m := range w.opened() {
			if since, idle := m.Rested(); idle && time.Since(since) >= mountIdle {
				m.Rest()
			}
		}
	}
}

// opened returns the mounts that are open, or being opened or closed.
func (w *mounts) opened() []*export.Mount {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.open))
}

// awake returns the exports of open mounts. w may be nil.
func (w *mounts) awake() (all []*export.Export) {
	if w == nil {
		return nil
	}
	for _, m := range w.opened() {
		if e := m.Awake(); e != nil {
			all = append(all, e)
		}
	}
	return all
}
