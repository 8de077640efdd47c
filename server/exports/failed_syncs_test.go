package exports

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// The server logs one line a minute about failed syncs of a file system. The line has the number of
// failures since the line before. All failures are counted.
func TestLinesAboutFailedSyncs(t *testing.T) {
	core, lines := observer.New(zapcore.DebugLevel)
	f := NewFilesystems(t.TempDir(), zap.New(core), descriptors)
	one, other := directoryKey{dev: 1}, directoryKey{dev: 2}
	now := time.Unix(1e9, 0)
	fail := func(dir string, key directoryKey, err error) { f.syncFailed(dir, key, local.Fsync, err, now) }
	for range 100 {
		fail("/srv", one, syscall.EIO)
		fail("/srv/sub", one, syscall.EIO)
	}
	fail("/home", other, syscall.ENOSPC)
	now = now.Add(syncLineEvery)
	fail("/srv", one, syscall.EDQUOT)
	all := lines.All()
	if len(all) != 3 || f.FailedSyncs() != 202 {
		t.Fatalf("%d lines, and %d syncs that failed are counted: %v", len(all), f.FailedSyncs(), all)
	}
	for i, want := range []struct {
		dir, err, remedy string
		others           any
	}{
		{"/srv", "input/output error", "journalctl -k", nil},
		{"/home", "no space left on device", "make room", nil},
		{"/srv", "disk quota exceeded", "quota", int64(199)},
	} {
		m := all[i].ContextMap()
		if m["directory"] != want.dir || m["error"] != want.err || m["call"] != "fsync" || m["others_before"] != want.others ||
			!strings.Contains(m["remedy"].(string), want.remedy) {
			t.Errorf("line %d: %v", i, m)
		}
	}
}

// The server logs a failed sync of an exported directory. In this test the disk has no space for
// data that it accepted before.
func TestFailedSyncOfAServedDirectoryIsLogged(t *testing.T) {
	// The FS sets the process's umask to 0. Restore it for later tests.
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	dir := t.TempDir()
	core, lines := observer.New(zapcore.DebugLevel)
	all := NewFilesystems(t.TempDir(), zap.New(core), descriptors)
	cfg := all.config(dir, directoryKey{dev: 1})
	cfg.Root = dir
	cfg.SyncHook = func(local.SyncCall, int) error { return syscall.ENOSPC }
	fs, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	own := local.Identity()
	_, _, err = fs.Mkdir(&vfs.Op{Cred: &own}, fs.Root(), []byte("d"), &vfs.SetAttr{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the caller is told %v", err)
	}
	if lines.Len() != 1 || all.FailedSyncs() == 0 {
		t.Errorf("%d lines, and %d syncs that failed are counted", lines.Len(), all.FailedSyncs())
	}
}
