package exports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Times of surveys.
const (
	// A survey reads the machine's mounts. The pause after a survey is surveyShare times as long as
	// the survey itself, so that surveys take a small part of the time, and at least surveyPause. A
	// call waits at most surveyWait for the next survey.
	surveyPause, surveyShare = 20 * time.Millisecond, 10
	surveyWait               = 250 * time.Millisecond
)

// Limits of mounts below exports; see also awake.go.
const (
	// Mounts get 1/mountsPart of the descriptors for files.
	mountsPart = 4
	// mostRefusals is the largest number of log lines about mounts that are not served, from the
	// start of the server to its end.
	mostRefusals = 1024
)

// mounts finds the machine's mounts below exports and enters them in a table as export.Mounts. It
// opens a mount when a call needs it, and closes it when it is idle.
type mounts struct {
	log         *zap.Logger
	table       *export.Table
	filesystems *Filesystems
	descriptors *local.Descriptors
	most        int // largest number of open mounts

	// surveying is locked during a survey. It guards surveyed, next, watch, places and out.
	surveying sync.Mutex
	// surveyed is the time at which the last survey began, and next the time from which another one
	// may begin.
	surveyed, next time.Time
	watch          *mountinfo.Watcher
	places         map[vfs.FileSystem]place // where the directories of exports are (see placesOf)
	out            []leftOut                // exports that are not served
	working        sync.WaitGroup           // the goroutines
	life           context.Context
	end            context.CancelFunc

	mu sync.Mutex
	// open has the mounts that are open, being opened, or being closed. The value is true while the
	// mount is being opened.
	open    map[*export.Mount]bool
	dozing  bool            // doze runs
	refused map[string]bool // the log lines that were written, by mount and reason
}

var _ export.Opener = (*mounts)(nil)

func newMounts(log *zap.Logger, table *export.Table, filesystems *Filesystems) *mounts {
	w := &mounts{log: log, table: table, filesystems: filesystems, open: make(map[*export.Mount]bool), refused: make(map[string]bool)}
	w.life, w.end = context.WithCancel(context.Background())
	table.OnMissing = w.missing
	return w
}

// exportsChanged updates the mounts in the table. If an export has the option crossmnt, it first
// starts to watch the machine's mounts. Set calls it when the table has new exports.
func (w *mounts) exportsChanged() {
	if slices.ContainsFunc(w.table.All(), func(e *export.Export) bool { return e.CrossMount }) {
		w.startWatch()
	}
	w.survey()
}

// leaveOut sets the exports of the configuration that are not served, before exportsChanged.
func (w *mounts) leaveOut(out []leftOut) {
	w.surveying.Lock()
	defer w.surveying.Unlock()
	w.out = out
}

// startWatch starts to watch the machine's mounts, unless w watches them already. The first call
// gives the mounts 1/mountsPart of the descriptors for files; until then the exports have all of
// them.
func (w *mounts) startWatch() {
	w.surveying.Lock()
	defer w.surveying.Unlock()
	if w.descriptors == nil {
		all := w.filesystems.Descriptors.Limit()
		w.descriptors = w.filesystems.budget(all / mountsPart)
		w.filesystems.ofMounts.Store(w.descriptors)
		w.filesystems.Descriptors.SetLimit(all - all/mountsPart)
		w.most = min(max(all/mountsPart/perMount, 1), mostAwake)
	}
	if w.watch != nil {
		return
	}
	watch, err := mountinfo.Watch()
	if err != nil {
		w.log.Error(logline.MountsUnwatched, zap.Error(err))
		return
	}
	w.watch = watch
	w.working.Go(func() {
		defer watch.Close()
		for watch.Changed() {
			next := w.survey()
			select {
			case <-w.life.Done():
				return
			case <-time.After(time.Until(next)):
			}
		}
	})
}

// missing waits for a survey that begins after the call of missing, and returns true. It makes this
// survey itself, unless another goroutine does. It returns false if it would have to wait for
// longer than surveyWait. The table calls missing if it does not find a name, because the name may
// be that of a new mount.
func (w *mounts) missing() bool {
	arrived := time.Now()
	for {
		w.surveying.Lock()
		done, wait := w.surveyed.After(arrived), time.Until(w.next)
		if !done && wait <= 0 {
			w.surveyLocked()
			done = true
		}
		w.surveying.Unlock()
		if done || time.Since(arrived)+wait > surveyWait {
			return done
		}
		time.Sleep(wait)
	}
}

// survey reads the machine's mounts and updates the table. It returns the time from which another
// survey may begin.
func (w *mounts) survey() (next time.Time) {
	w.surveying.Lock()
	defer w.surveying.Unlock()
	w.surveyLocked()
	return w.next
}

// surveyLocked is survey for a caller that holds w.surveying.
func (w *mounts) surveyLocked() {
	w.surveyed = time.Now()
	defer func() { w.next = time.Now().Add(max(surveyPause, surveyShare*time.Since(w.surveyed))) }()
	found, err := w.findMounts(w.table.All())
	if err != nil {
		w.log.Error(logline.MountsUnread, zap.Error(err))
		return
	}
	for _, m := range w.table.SetMounts(found, w) {
		w.log.Debug("not mounted below an export any more", zap.String("export", m.Name))
	}
	// The log says that a mount is not served only when that is so. What shows the machine itself is no
	// surprise; the log says so when a client asks for it.
	for i := range found {
		if f := &found[i]; f.Refused != "" && !slices.Contains(machines, f.Kind) {
			w.refuse(f, f.Refused)
		}
	}
}

// findMounts returns the mounts below exports with crossmnt. The caller passes a sorted list of
// exports, the longest names first. So a mount below two exports is found for the inner export
// first. The caller holds w.surveying.
func (w *mounts) findMounts(exports []*export.Export) (found []export.Found, err error) {
	if !slices.ContainsFunc(exports, func(e *export.Export) bool { return e.CrossMount }) {
		return nil, nil
	}
	all, err := mountinfo.Read()
	if err != nil {
		return nil, err
	}
	tree := mountinfo.NewTree(all)
	w.places = placesOf(exports, w.places, all)
	refusals := make(map[string]string) // Found.Refused of the mounts found so far, by name
	for _, top := range exports {
		placed, ok := vfs.As[vfs.Placed](top.FS)
		if !top.CrossMount || !ok {
			continue
		}
		mount, dir, err := placed.Place(&vfs.Op{Cred: &vfs.Cred{}}, top.FS.Root())
		if err != nil {
			continue // this process cannot find out the path of the export
		}
		tree.Below(mount, dir, func(m, under *mountinfo.Mount) bool {
			f := export.Found{
				Top: top, Under: top.Name, Dir: dir, Point: m.Point, Name: mountName(top.Name, dir, m.Point),
				ID: m.ID, Device: m.Device, Root: m.Root, Kind: m.Kind, Owner: m.Owner,
			}
			if under != nil {
				f.Under, f.Dir = mountName(top.Name, dir, under.Point), under.Point
			}
			taken := slices.ContainsFunc(exports, func(e *export.Export) bool { return e.Name == f.Name })
			if why, known := refusals[f.Name]; known {
				f.Refused = why // the mount has the options of an export within this one
			} else if !taken {
				f.Refused = w.refusal(&f, exports)
				refusals[f.Name] = f.Refused
			}
			found = append(found, f)
			return f.Refused == "" && !taken
		})
	}
	return found, nil
}

// refusal returns the reason why a mount must not be served, or "". The caller holds w.surveying.
func (w *mounts) refusal(f *export.Found, exports []*export.Export) string {
	if slices.Contains(machines, f.Kind) {
		return "it shows the machine itself, not files"
	}
	return exposed(f.Top, f, exports, w.places, w.out)
}

// machines has the types of file systems that show the kernel's own data, and autofs, on which
// another file system is mounted on demand. The server never serves them, although some have file
// handles.
var machines = strings.Fields(`autofs binfmt_misc bpf cgroup cgroup2 configfs cpuset debugfs devpts devtmpfs
	efivarfs functionfs fusectl hugetlbfs ipathfs mqueue nfsd nsfs nullfs openpromfs pidfs proc pstore resctrl rpc_pipefs
	securityfs selinuxfs smackfs sockfs sysfs tracefs usbfs xenfs`)

// Open implements export.Opener.
func (w *mounts) Open(m *export.Mount) (vfs.FileSystem, error) {
	if !w.mayOpen(m) {
		return nil, vfs.ErrDelay
	}
	fs, err := w.openNow(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[m] = false
	if err != nil {
		delete(w.open, m)
		if slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, vfs.ErrDelay}, func(passes error) bool { return errors.Is(err, passes) }) {
			return nil, vfs.ErrDelay
		}
		w.refuseLocked(&m.Found, err.Error())
		return nil, err
	}
	if !w.dozing && w.life.Err() == nil {
		w.dozing = true
		w.working.Go(w.doze)
	}
	return fs, nil
}

// openNow opens the file system of a mount. It returns an error if another mount covers the path
// now, if the mount is not a directory, or if clients could reach the state directory through it.
func (w *mounts) openNow(m *export.Mount) (*local.FS, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Point, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	sx, err := status(fd)
	switch {
	case err != nil:
		return nil, err
	case sx.Mnt_id != m.ID || sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, errors.New("another mount hides it")
	case sx.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, errors.New("it is mounted on a file")
	}
	if err := w.filesystems.mountApartFrom(&m.Found, &sx); err != nil {
		return nil, err
	}
	fs, err := local.New(local.Config{
		Root: fmt.Sprintf("/proc/self/fd/%d", fd), Sync: true, Descriptors: w.descriptors, KernelHandles: true, StateDir: w.filesystems.index(),
		FSID: uint64(m.ExportID)<<32 | 1, Mount: mountinfo.Mount{ID: m.ID, Device: m.Device, Root: m.Root, Point: m.Point, Kind: m.Kind},
	})
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the outer error would show /proc/self/fd/N instead of the path
	}
	return fs, err
}

// Refused implements export.Opener.
func (w *mounts) Refused(m *export.Mount) { w.refuse(&m.Found, m.Refused) }

func (w *mounts) refuse(m *export.Found, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuseLocked(m, why)
}

// refuseLocked logs why a mount is not served: once for each mount and reason, and at most
// mostRefusals times in all.
func (w *mounts) refuseLocked(m *export.Found, why string) {
	line := m.Name + "\x00" + why
	switch n := len(w.refused); {
	case w.refused[line] || n > mostRefusals:
	case n == mostRefusals:
		w.refused[line] = true
		w.log.Warn(logline.MoreMountsUnserved)
	default:
		w.refused[line] = true
		w.log.Warn(logline.MountUnserved, zap.String("export", m.Name), zap.String("mount", m.Point),
			zap.String("type", m.Kind), zap.String("reason", why))
	}
}

// Close implements export.Opener.
func (w *mounts) Close(m *export.Mount, fs vfs.FileSystem) {
	if err := w.filesystems.LetGo(fs); err != nil {
		w.log.Error(logline.MountUnclosed, zap.String("export", m.Name), zap.Error(err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, m)
}

// stop stops the goroutines of w, after which no mount is opened any more. It returns the mounts
// that are open, or being opened or closed. w may be nil.
func (w *mounts) stop() []*export.Mount {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	open := w.opened()
	w.surveying.Lock()
	if w.watch != nil {
		w.watch.Stop()
	}
	w.surveying.Unlock()
	w.working.Wait()
	return open
}
