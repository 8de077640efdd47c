package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Under relatime a read of a file updates its atime, and may wait for the disk, unless the atime is later than the
// mtime and than the ctime, and less than a day old. Only such a file is read quietly.
func TestOnlyWhatIsNotNotedIsReadQuietly(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("local-test", root, "tmpfs", unix.MS_RELATIME, ""); err != nil {
		t.Skip("tmpfs cannot be mounted here:", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	fs, err := New(Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	if readKind(fs.reads.Load()) != relatime {
		t.Fatal("a mount with relatime has another kind of reads")
	}
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	for what, c := range map[string]struct {
		atime, mtime time.Time // the ctime is now
		clock        time.Time
		quiet        bool
	}{
		"the atime is the latest":                            {hour(1), hour(-1), hour(0), true},
		"the file was changed after the read":                {hour(1), hour(2), hour(0), false},
		"the file was changed when it was read":              {hour(1), hour(1), hour(0), false},
		"its mode was changed after the read":                {hour(-1), hour(-2), hour(0), false},
		"the read was long ago":                              {hour(1), hour(-1), hour(26), false},
		"the read was long ago, and the mode was changed":    {hour(-30), hour(-31), hour(0), false},
		"the read was yesterday, a little less than one day": {hour(1), hour(-1), hour(24), true},
	} {
		name := filepath.Join(root, "f")
		if err := os.WriteFile(name, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, c.atime, c.mtime); err != nil {
			t.Fatal(err)
		}
		var a vfs.Attr
		o, err := fs.Lookup(&daemonOp, fs.Root(), []byte("f"), &a)
		if err != nil {
			t.Fatal(err)
		}
		n, err := fs.node(&daemonOp, o.Handle)
		if err != nil {
			t.Fatal(err)
		}
		fs.SetClock(func() time.Time { return c.clock })
		var is look
		if err := n.stat(&is); err != nil {
			t.Fatal(err)
		}
		fs.wasRead(n, &is)
		if quiet := fs.readsQuietly(n); quiet != c.quiet {
			t.Errorf("%s: read quietly %v, want %v", what, quiet, c.quiet)
		}
		n.put()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
