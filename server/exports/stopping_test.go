package exports

import (
	"slices"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A pendingSite is an Offer that serves one directory.
type pendingSite struct {
	*testing.T
	filesystems *Filesystems
	offer       *Offer
	set         *Set
	export      config.Export
}

func newPendingSite(t *testing.T) *pendingSite {
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	s := &pendingSite{T: t, filesystems: NewFilesystems(t.TempDir(), zap.NewNop(), descriptors)}
	s.offer, s.set = offerOf(s.filesystems, zap.NewNop())
	s.export = config.Export{Path: config.Dir{Path: t.TempDir()}, Name: "/e"}
	if _, err := s.offer.Serve(t.Context(), []config.Export{s.export}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSet(s.set) })
	return s
}

// begins does what a reload does before the directory is open: the export has these options.
func (s *pendingSite) begins(text string) *wanted {
	s.Helper()
	e := s.export
	e.Options = options(s.T, text)
	as, err := describe(&e)
	if err != nil {
		s.Fatal(err)
	}
	w := &wanted{Export: e, name: as.Name, as: as}
	s.offer.mu.Lock()
	defer s.offer.mu.Unlock()
	if err := s.offer.inheritLocked([]*wanted{w}); err != nil {
		s.Fatal(err)
	}
	return w
}

// opens gives w the result of opening a directory.
func (s *pendingSite) opens(w *wanted, dir string) {
	s.Helper()
	fs, err := showAt(s.filesystems, dir)
	if err != nil {
		s.Fatal(err)
	}
	s.offer.mu.Lock()
	defer s.offer.mu.Unlock()
	w.result = &opened{fs: fs, root: w.root, at: w.at}
}

func (s *pendingSite) applies() {
	s.Helper()
	s.offer.mu.Lock()
	defer s.offer.mu.Unlock()
	if _, err := s.offer.applyLocked(); err != nil {
		s.Fatal(err)
	}
}

// counts returns how many exports use each open file system.
func (s *pendingSite) counts() (n []int) {
	s.filesystems.mu.Lock()
	defer s.filesystems.mu.Unlock()
	for _, is := range s.filesystems.open {
		n = append(n, is.exports)
	}
	return n
}

func (s *pendingSite) stops() {
	s.Helper()
	if _, err := s.offer.Stop(s.Context(), "/e"); err != nil {
		s.Fatal(err)
	}
	if n := len(s.set.Table.All()); n != 0 {
		s.Errorf("%d exports are served", n)
	}
	if n := s.counts(); len(n) != 0 {
		s.Errorf("file systems are open, for %d exports", n)
	}
}

// An export that is stopped while a reload waits for other directories is not served, and its file system is closed,
// although the reload has opened its directory already, or is about to change its options.
func TestStopDuringAReload(t *testing.T) {
	t.Run("opened", func(t *testing.T) {
		s := newPendingSite(t)
		s.opens(s.begins(""), s.export.Path.Path)
		s.stops()
		s.applies()
		s.stops()
	})
	t.Run("options", func(t *testing.T) {
		s := newPendingSite(t)
		s.opens(s.begins("ro"), s.export.Path.Path)
		s.stops()
	})
	t.Run("opened late", func(t *testing.T) {
		s := newPendingSite(t)
		w := s.begins("")
		s.stops()
		s.opens(w, s.export.Path.Path)
		s.applies()
		await.Until(t, "the file system is closed", func() bool { return len(s.counts()) == 0 })
		s.stops()
	})
}

// A served export counts once in its file system, however many reloads have overtaken each other.
func TestOvertakenReloadsCountOnce(t *testing.T) {
	s := newPendingSite(t)
	once := func() bool { return slices.Equal(s.counts(), []int{1}) }
	s.opens(s.begins("ro"), s.export.Path.Path)
	s.begins("") // as it is served
	for range 4 {
		s.applies()
	}
	await.Until(t, "one export counts", once)
	was := s.set.Table.All()[0].FS
	other := t.TempDir()
	s.opens(s.begins("ro"), other) // another directory, and other options
	s.applies()
	await.Until(t, "the file system of the earlier directory is closed", once)
	if now, is := s.set.Table.All()[0].FS.(*local.FS); !is || now == was {
		t.Error("the earlier directory is served")
	}
	s.stops()
}
