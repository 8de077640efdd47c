package exports

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A rootsSite is a server with two exports: srv, and sub, a directory within srv that is exported
// to other clients.
type rootsSite struct {
	t               *testing.T
	srv, sub, state string
	all             []config.Export
	logged          *observer.ObservedLogs
	filesystems     *Filesystems
	offer           *Offer
	set             *Set
}

func newRootsSite(t *testing.T) *rootsSite {
	if os.Geteuid() != 0 {
		t.Skip("a server that acts as its callers runs as root")
	}
	umask := unix.Umask(0)
	unix.Umask(umask)
	t.Cleanup(func() { unix.Umask(umask) })
	base := t.TempDir()
	s := &rootsSite{t: t, srv: filepath.Join(base, "srv"), sub: filepath.Join(base, "srv", "sub"), state: t.TempDir()}
	s.must(os.MkdirAll(s.sub, 0o755))
	s.all = []config.Export{{Path: config.Dir{Path: s.srv}, Name: "/srv"}, {Path: config.Dir{Path: s.sub}, Name: "/srv/sub"}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *rootsSite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// reload serves the exports as a start or a reload does.
func (s *rootsSite) reload() {
	s.t.Helper()
	s.logged.TakeAll()
	_, err := s.offer.Serve(s.t.Context(), s.all)
	s.must(err)
}

// now returns the export number i of the configuration, or nil if it is not served.
func (s *rootsSite) now(i int) *export.Export {
	all := s.set.Table.All()
	if i >= len(s.all) {
		return nil
	}
	if at := slices.IndexFunc(all, func(e *export.Export) bool { return e.Name == s.all[i].Name }); at >= 0 {
		return all[at]
	}
	return nil
}

func (s *rootsSite) start() {
	s.t.Helper()
	core, logged := observer.New(zap.InfoLevel)
	s.logged = logged
	s.filesystems = NewFilesystems(s.state, zap.NewNop(), descriptors)
	s.offer, s.set = offerOf(s.filesystems, zap.New(core))
	s.reload()
}

func (s *rootsSite) stop() {
	s.must(closeSet(s.set))
	await.Until(s.t, "the file systems are closed", func() bool {
		s.filesystems.mu.Lock()
		defer s.filesystems.mu.Unlock()
		return len(s.filesystems.open) == 0
	})
}

// restart stops the server and starts another one. The new server must leave out the inner export for
// the given reason, or serve it if reason is "". It must serve the outer one.
func (s *rootsSite) restart(reason string) {
	s.t.Helper()
	s.stop()
	s.start()
	var err error
	for _, f := range s.offer.Faults() {
		err = f.Err
	}
	if len(s.all) > 1 && (s.now(1) == nil) != (reason != "") || (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
		s.t.Errorf("a restart: %v, want %q", err, reason)
	}
	if s.now(0) == nil {
		s.t.Error("the outer export is not served")
	}
}

// reloadKeeps reloads the configuration. The server must keep the present directory of the inner
// export, and log an error that contains reason.
func (s *rootsSite) reloadKeeps(reason string) {
	s.t.Helper()
	was := s.now(1).FS
	s.reload()
	if s.now(1).FS != was {
		s.t.Error("the export has another directory after a reload")
	}
	all := s.logged.All()
	if len(all) != 1 || !strings.Contains(all[0].ContextMap()["error"].(string), reason) {
		s.t.Errorf("the log says %v, want %q", all, reason)
	}
}

// An export within another export stays the same directory, although clients of the outer export
// can move it away and put a symbolic link or another directory in its place.
func TestExportStaysTheDirectoryThatItWas(t *testing.T) {
	away := func(s *rootsSite) { s.must(os.Rename(s.sub, s.sub+".away")) }
	for _, c := range []struct {
		name, reason string
		put          func(s *rootsSite)
	}{
		{"a symbolic link", "is a symbolic link", func(s *rootsSite) { s.must(os.Symlink("/etc", s.sub)) }},
		{"a symbolic link to a directory of the export", "is a symbolic link", func(s *rootsSite) {
			s.must(os.Mkdir(filepath.Join(s.srv, "other"), 0o777))
			s.must(os.Symlink("other", s.sub))
		}},
		{"another directory", "is another directory than before", func(s *rootsSite) { s.must(os.Mkdir(s.sub, 0o777)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRootsSite(t)
			s.reload()
			if n := s.logged.Len(); n != 0 {
				t.Errorf("%v", s.logged.All())
			}
			away(s)
			c.put(s)
			s.reloadKeeps(c.reason)
			s.reloadKeeps(c.reason)
			s.restart(c.reason)
			s.restart(c.reason)
			s.must(os.RemoveAll(s.sub))
			s.must(os.Rename(s.sub+".away", s.sub))
			s.restart("")
		})
	}
}

// remount unmounts dir and mounts a new file system of type kind there, as a machine does when it
// boots. It creates directories with the given names in it. If kind is "", it mounts nothing.
func (s *rootsSite) remount(kind, dir string, names ...string) {
	s.t.Helper()
	for unix.Unmount(dir, unix.MNT_DETACH) == nil {
	}
	if kind != "" {
		s.must(unix.Mount("memory", dir, kind, 0, ""))
		s.t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	for _, name := range names {
		s.must(os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
}

// aBootLater makes the state directory look as if the machine had booted since it was written.
func (s *rootsSite) aBootLater() {
	file := filepath.Join(s.state, rootsFile)
	b, err := os.ReadFile(file)
	s.must(err)
	s.must(os.WriteFile(file, bytes.ReplaceAll(b, []byte(boot()), []byte("an earlier boot")), 0o600))
}

// If an export lies in a file system that the machine creates at each boot, such as a tmpfs, the
// server serves it after a boot, because clients of an outer export cannot mount. Handles of the
// former file system are stale.
func TestExportInAFileSystemThatIsMadeAnew(t *testing.T) {
	for _, c := range []struct{ name, kind, mount, dir string }{
		{"the file system itself", "tmpfs", "srv/run", "srv/run"},
		{"a directory in it", "tmpfs", "srv/run", "srv/run/jobs"},
		{"a directory in it, without a UUID", "ramfs", "srv/run", "srv/run/jobs"},
		{"both exports in it", "tmpfs", "srv", "srv/run/jobs"},
		{"in a file system mounted in it", "tmpfs", "srv/run", "srv/run/jobs/deep/down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRootsSite(t)
			base := filepath.Dir(s.srv)
			at := func(name string) string { return filepath.Join(base, name) }
			s.sub = at(c.dir)
			s.must(os.MkdirAll(at("srv/run"), 0o755))
			boot := func() {
				s.remount(c.kind, at(c.mount))
				s.must(os.MkdirAll(at("srv/run/jobs"), 0o755))
				if strings.HasPrefix(c.dir, "srv/run/jobs/") {
					s.remount(c.kind, at("srv/run/jobs"), "deep/down")
				}
			}
			boot()
			s.all[1].Path = config.Dir{Path: s.sub}
			s.reload()
			was := s.now(1).FS.Root()
			for range 2 {
				s.stop()
				boot()
				s.aBootLater()
				s.restart("")
				if s.now(1) == nil {
					t.FailNow()
				}
				if n := s.logged.FilterLevelExact(zap.WarnLevel).Len(); n != 0 {
					t.Errorf("the log warns: %v", s.logged.All())
				}
				var a vfs.Attr
				if err := s.now(1).FS.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, was, &a); c.kind == "tmpfs" && !errors.Is(err, unix.ESTALE) {
					t.Errorf("the handle of the former directory: %v", err)
				}
			}
			// If nothing is mounted there, or if the directory is not the one that the boot
			// created, clients may have put the present directory there.
			s.stop()
			if c.dir != c.mount {
				s.must(os.Rename(s.sub, s.sub+".away"))
				s.must(os.Mkdir(s.sub, 0o777))
				s.restart("is another directory than before")
				s.must(os.Remove(s.sub))
				s.must(os.Rename(s.sub+".away", s.sub))
				s.restart("")
			}
			if c.mount != "srv" {
				s.remount("", at("srv/run"))
				s.must(os.MkdirAll(s.sub, 0o777))
				s.restart("is another directory than before")
			}
		})
	}
}

// If a file system has no identity that lasts over reboots, the server recognizes directories in it
// by their handles. So clients of the outer export cannot exchange the inner directory before a
// reboot without being noticed.
func TestExportStaysTheDirectoryThatItWasBeforeTheBoot(t *testing.T) {
	for _, dir := range []string{"inner", "run/jobs"} {
		s := newRootsSite(t)
		s.remount("ramfs", s.srv, dir)
		if dir == "run/jobs" {
			s.remount("tmpfs", filepath.Join(s.srv, "run"), "jobs")
		}
		s.sub = filepath.Join(s.srv, dir)
		s.all[1].Path = config.Dir{Path: s.sub}
		s.reload()
		s.stop()
		s.aBootLater()
		s.restart("")
		s.stop()
		s.must(os.Rename(s.sub, s.sub+".away"))
		s.must(os.Mkdir(s.sub, 0o777))
		s.aBootLater()
		s.restart("is another directory than before")
		s.must(os.Remove(s.sub))
		s.must(os.Rename(s.sub+".away", s.sub))
		s.restart("")
	}
}

// If clients of an outer export rename directories above a mount, so that the path of the inner
// export leads through another mount, the server refuses the inner export.
func TestExportIsNoOtherMount(t *testing.T) {
	s := newRootsSite(t)
	for _, name := range []string{"a", "secret"} {
		s.must(os.MkdirAll(filepath.Join(s.srv, name, "m"), 0o755))
		s.remount("tmpfs", filepath.Join(s.srv, name, "m"), "jobs")
	}
	for _, dir := range []string{"a/m", "a/m/jobs"} {
		s.sub = filepath.Join(s.srv, dir)
		s.all[1].Path = config.Dir{Path: s.sub}
		s.reload()
		swap := func(from, to string) {
			s.must(os.Rename(filepath.Join(s.srv, from), filepath.Join(s.srv, to)))
		}
		swap("a", "away")
		swap("secret", "a")
		s.reloadKeeps("is another directory than before")
		s.restart("is another directory than before")
		swap("a", "secret")
		swap("away", "a")
		s.restart("")
	}
}

// An administrator can give an export another directory: by removing exports.json, by configuring
// another path, or by removing the outer export.
func TestExportIsAnotherDirectoryOnPurpose(t *testing.T) {
	s := newRootsSite(t)
	replace := func(dir string) {
		s.must(os.Rename(dir, dir+".away"))
		s.must(os.Mkdir(dir, 0o777))
	}
	replace(s.sub)
	s.reloadKeeps("is another directory")
	was := s.now(1).FS
	s.must(os.Remove(filepath.Join(s.state, rootsFile)))
	s.reload()
	if s.now(1).FS == was {
		t.Error("the directory of before is still served")
	}
	// The export gets another path.
	other := filepath.Join(s.srv, "other")
	s.must(os.Mkdir(other, 0o777))
	s.all[1].Path = config.Dir{Path: other}
	s.reload()
	// Without the outer export no client can change the path.
	s.all = s.all[:1]
	replace(s.srv)
	s.reload()
	if all := s.logged.All(); len(all) != 1 || !strings.Contains(all[0].Message, "another directory than before") {
		t.Errorf("the log says %v", all)
	}
	s.restart("")
	s.must(os.WriteFile(filepath.Join(s.state, rootsFile), []byte("{"), 0o600))
	s.stop()
	s.start()
	if f := s.offer.Faults(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "remove the file") {
		t.Errorf("%v", f)
	}
}

// The server follows symbolic links on the path of an export, except within another export. It
// recognizes the other export even if the configuration names it by another path.
func TestWayToAnExport(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"toA": "a", "toAbsolute": at("a"), "toLink": "toA/b", "a/out": "../d", "a/in": "b/", "d/up": "../a/./b", "loop": "loop"} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir, other string // other is another exported directory
		is, within string // is: the directory that dir leads to; "": the server refuses it
	}{
		{"a/b", "d", "a/b", ""}, {"toA/b", "d", "a/b", ""}, {"toLink/c", "d", "a/b/c", ""}, {"toAbsolute", "d", "a", ""},
		{"a/out", "d", "d", ""}, {"d/up", "a/b/c", "a/b", ""}, {"loop", "d", "", ""}, {"none", "d", "", ""},
		{"a/b", "a", "a/b", "a"}, {"a/b/c", "toA", "a/b/c", "toA"}, {"toA/b", "toAbsolute", "a/b", "toAbsolute"}, {"a", "toA", "a", ""},
		{"a/out", "a", "", ""}, {"a/in", "toA", "", ""}, {"a/in/c", "a", "", ""}, {"d/up", "d", "", ""}, {"d/up", "a", "a/b", "a"},
	} {
		all := []config.Export{{Path: config.Dir{Path: at(c.dir)}}, {Path: config.Dir{Path: at(c.other)}}}
		w := &ways{all: all, at: locateExports(all, nil)}
		fd, in, err := w.walk(0)
		if err != nil {
			if lost := (*lostRoot)(nil); c.is != "" || errors.As(err, &lost) == (c.other == "d" && c.dir != "d/up") {
				t.Errorf("%s beside %s: %v", c.dir, c.other, err)
			}
			continue
		}
		within := c.within
		if within != "" {
			within = at(within)
		}
		var is, want unix.Stat_t
		if unix.Fstat(fd, &is) != nil || unix.Stat(at(c.is), &want) != nil || is.Ino != want.Ino || in != within {
			t.Errorf("%s beside %s: inode %d within %q, want %d within %q", c.dir, c.other, is.Ino, in, want.Ino, within)
		}
		unix.Close(fd)
	}
}

// The server refuses an export whose directory lies in that of an export with more clients or
// weaker flavors, unless it has the option nested.
func TestExportInAMoreOpenOneIsRefused(t *testing.T) {
	base := t.TempDir()
	inner := filepath.Join(base, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, options, inner, innerOptions, refused string
	}{
		{base, "sec=sys", inner, "sec=krb5p", "takes sec=sys"},
		{base, "sec=krb5p", inner, "sec=sys", ""},
		{base, "", inner, "clients=192.0.2.0/24", "serves clients"},
		{base, "clients=192.0.2.0/24", inner, "", ""},
		{base, "", inner, "clients=192.0.2.0/24,nested", ""},
		{base, "sec=sys", inner, "sec=krb5p,nested", ""},
		{base, "ro", inner, "rw", ""},
		{inner, "sec=sys", inner, "sec=krb5p", ""}, // two exports of one directory are visible to the administrator
		{t.TempDir(), "sec=sys", inner, "sec=krb5p", ""},
	} {
		cfg := &config.Config{StateDir: t.TempDir(), Exports: []config.Export{
			{Path: config.Dir{Path: c.dir}, Name: "/outer", Options: options(t, c.options)},
			{Path: config.Dir{Path: c.inner}, Name: "/inner", Options: options(t, c.innerOptions)},
		}}
		err := KeepApart(cfg)
		if (err == nil) != (c.refused == "") || err != nil && (!strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "nested")) {
			t.Errorf("%s within %s: %v, want %q", c.innerOptions, c.options, err, c.refused)
		}
	}
}
