package exports

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// locateWithin is the time for which the opening of an export waits until the directories of the
// other exports are located. A directory that takes longer counts as one that is not there.
const locateWithin = time.Second

// An opening opens the directories of several exports of an Offer, each on a goroutine of its own.
type opening struct {
	offer *Offer
	ways  func() *ways // the locations of all exports; called after located is closed, or locateWithin

	mu      sync.Mutex
	at      []*location // of all exports of the Offer; nil if not known yet
	missing int         // exports that are opened, and whose location is not known yet
	located chan struct{}

	// Offer.mu guards the following. running counts the exports that are being opened, and done is
	// closed when there are none. If late is true, no goroutine waits for done.
	running int
	done    chan struct{}
	late    bool
	// of is nil, or the opening that waits for this one.
	of *opening
	// which are the exports that are opened.
	which []*wanted
}

// An opened is the directory of an export that was opened, or the error of opening it.
type opened struct {
	fs   *local.FS // counts one more export; nil after an error
	root root
	at   *location
	err  error
}

// beginLocked begins to open the directories of exports of the Offer. For those that an earlier opening
// is still busy with, it waits for that one. The caller holds o.mu.
func (o *Offer) beginLocked(which []*wanted) *opening {
	p := &opening{offer: o, located: make(chan struct{}), done: make(chan struct{})}
	all := o.wanted
	p.ways = sync.OnceValue(func() *ways { return p.locations(all) })
	p.at = o.locationsLocked()
	var begin []int
	for i, w := range all {
		if w.stopped || !slices.Contains(which, w) {
			continue
		}
		p.running++
		p.which = append(p.which, w)
		if o.busy[w.key()] {
			w.joined = append(w.joined, p)
			continue
		}
		o.busy[w.key()] = true
		begin = append(begin, i)
		if p.at[i] == nil {
			p.missing++
		}
	}
	if p.missing == 0 {
		close(p.located)
	}
	if p.running == 0 {
		close(p.done)
	}
	for _, i := range begin {
		go p.run(all[i], i, p.at[i] == nil)
	}
	return p
}

// run opens the directory of w, the export i. If unknown is true, it first tells the others where the
// directory is.
func (p *opening) run(w *wanted, i int, unknown bool) {
	if unknown {
		at, _ := locate(w.Path.Path) // walk explains why a directory cannot be opened
		p.mu.Lock()
		p.at[i] = at
		if p.missing--; p.missing == 0 {
			close(p.located)
		}
		p.mu.Unlock()
	}
	late := time.NewTimer(locateWithin)
	select {
	case <-p.located:
	case <-late.C:
	}
	late.Stop()
	is, err := p.offer.openDirectory(w, p.ways(), i)
	is.err = err
	p.offer.ended(p, w, is)
}

// locations returns the locations that are known now, with the mounts that are part of the exports.
func (p *opening) locations(all []*wanted) *ways {
	w := new(ways)
	p.mu.Lock()
	for i, l := range p.at {
		w.all = append(w.all, all[i].Export)
		if l != nil {
			l = l.copied()
		}
		w.at = append(w.at, l)
	}
	p.mu.Unlock()
	findReached(w.all, w.at)
	w.stored, w.err = readRoots(p.offer.filesystems.state)
	return w
}

// endedLocked counts that one export has been opened or has failed.
func (p *opening) endedLocked() {
	if p.running--; p.running == 0 {
		close(p.done)
		if p.of != nil {
			p.of.endedLocked()
		}
	}
}

// lateLocked reports whether no goroutine waits for p.
func (p *opening) lateLocked() bool { return p.late || p.of != nil && p.of.lateLocked() }

// wait waits until all exports have been opened or have failed, at most until end is closed.
func (p *opening) wait(end <-chan struct{}, within time.Duration) (ended bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.done:
		return true
	case <-late.C:
	case <-end:
	}
	return false
}

// A lostRoot is the error that clients of another export may have changed which directory is at an
// export's path.
type lostRoot struct{ why string }

func (e *lostRoot) Error() string { return e.why }

// openDirectory opens the file system of w, the export i. If the path was exported before, and now
// leads to another directory, and through the directory of another export, the clients of that export
// may have put the directory there. openDirectory then returns a *lostRoot.
func (o *Offer) openDirectory(w *wanted, ways *ways, i int) (is opened, err error) {
	dir := w.Path.Path
	if ways.err != nil {
		return is, ways.err
	}
	fd, within, err := ways.walk(i)
	if err != nil {
		return is, explain(dir, err)
	}
	defer unix.Close(fd)
	if is.root, err = rootAt(dir, fd); err != nil {
		return is, fmt.Errorf("%s: %w", dir, err)
	}
	if is.at, err = locateFD(fd); err != nil {
		return is, fmt.Errorf("%s: %w", dir, err)
	}
	if err := refuseMachine(dir, is.at.kind); err != nil {
		return is, err
	}
	if err := o.filesystems.apartFrom(fd); err != nil {
		return is, fmt.Errorf("%s: %w", dir, err)
	}
	was, known := ways.stored[dir]
	if known && within != "" && !is.root.mayBe(was.directory) && !is.root.is(&was) {
		return is, &lostRoot{fmt.Sprintf("%s is another directory than before, and lies in %s, whose clients may have put it there: if it is what you mean, remove %s, and reload or start",
			dir, within, filepath.Join(o.filesystems.state, rootsFile))}
	}
	if is.fs, err = o.filesystems.show(dir, fd); err != nil {
		return is, err
	}
	if lacks := lacks(is.at.kind); lacks != "" {
		o.log.Warn(logline.FileSystemLacks, zap.String("export", w.name), zap.String("kind", is.at.kind), zap.String("lacks", lacks))
	}
	scope := is.fs.Scope()
	is.root.Scope = hex.EncodeToString(scope[:])
	if known {
		o.tellChange(w.name, &is.root, &was)
	}
	return is, nil
}

// tellChange logs that an export shows something else than at an earlier time (was), or that the handles
// which clients got then are stale. At a start that is no warning if only another file system is mounted,
// because a tmpfs is another one after each boot.
func (o *Offer) tellChange(name string, is, was *root) {
	level, what := zap.WarnLevel, ""
	served := slices.ContainsFunc(o.set.Table.All(), func(e *export.Export) bool { return e.Name == name })
	switch {
	case is.mayBe(was.directory) && is.Scope == was.Scope:
		return
	case is.mayBe(was.directory) && was.Scope == "":
		what, served = logline.OldHandles, true
	case is.mayBe(was.directory):
		what = logline.MountedAnew
	case is.is(was):
		what = logline.OtherFileSystem
	default:
		what, served = logline.OtherDirectory, true
	}
	if !served {
		level = zap.InfoLevel
	}
	fields := []zap.Field{zap.String("export", name), zap.String("path", is.Path)}
	if is.Scope != was.Scope {
		fields = append(fields, zap.String("clients", "their file handles of before are stale: where a mount point is stale, unmount it and mount again"))
	}
	o.log.Log(level, what, fields...)
}

// explain returns the error of a directory that cannot be opened, with a remedy.
func explain(dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(filepath.Base(dir), ":"):
		at := strings.LastIndexByte(dir, ':')
		path, name := dir[:at], dir[at+1:]
		return fmt.Errorf("directory %s is not there: if %q is meant as the name of the export, write %s:/%s", dir, name, path, name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %s is not there: create it (mkdir -p %s), mount its file system, or correct the path", dir, dir)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is not a directory: export the directory that holds it", dir)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("directory %s cannot be opened by user %d: let this user search it and the directories above it (chmod, setfacl), mount it with allow_other if it is a FUSE file system, or run the daemon as root", dir, os.Geteuid())
	}
	if _, lost := errors.AsType[*lostRoot](err); lost {
		return err
	}
	return fmt.Errorf("directory %s cannot be opened: %w", dir, config.Cause(err))
}
