package statedir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
)

// directory returns a state directory with all files.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, Key, strings.Repeat("k", 32))
	write(t, dir, Roots, `{"/a": {"path": "/srv/a", "fsid": "1", "handle": "2"}}`)
	write(t, dir, Stopped, `{"version": 1, "exports": ["/a", "/b\u001b[2J"]}`)
	write(t, dir, List, Key+"\n"+Records+"\n"+Roots+"\n"+Stopped+"\n")
	write(t, dir, Lock, "")
	if err := Mark(dir); err != nil {
		t.Fatal(err)
	}
	s, err := records.Open(filepath.Join(dir, Records))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put([]state.Record{{Kind: state.Minor0, Owner: "a client\x1b[2J", Principal: "uid 0"}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each thing that is wrong with a file is found, with a remedy, and the file is named.
func TestProblemsAreFound(t *testing.T) {
	dir := directory(t)
	c, err := Look(dir)
	if err != nil || len(c.Problems()) > 0 || c.Used || len(c.Clients) != 1 || len(c.Exports) != 1 || c.Exports[0] != "/srv/a" || len(c.Stopped) != 2 || c.Stopped[0] != "/a" {
		t.Fatalf("a whole directory: %+v, %v", c, err)
	}
	var out bytes.Buffer
	c.Print(&out)
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "a client") || !strings.Contains(out.String(), "2 \"/a, /b") {
		t.Errorf("show prints %q", out.String())
	}
	whole, err := os.ReadFile(filepath.Join(dir, Records))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		file, says string
		spoil      func(path string) error
	}{
		{Key, "16 bytes instead of 32", func(p string) error { return os.Truncate(p, 16) }},
		{Key, "mode 0644", func(p string) error { return os.Chmod(p, 0o644) }},
		{Key, "user 1001", func(p string) error { return os.Chown(p, 1001, -1) }},
		{Key, "symbolic link", func(p string) error { return errors.Join(os.Rename(p, p+".elsewhere"), os.Symlink(p+".elsewhere", p)) }},
		{Key, "not a regular file", func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) }},
		{Key, "missing", os.Remove},
		{".", "mode 0777", func(p string) error { return os.Chmod(p, 0o777) }},
		{Roots, "missing", os.Remove},
		{Roots, "JSON", func(p string) error { return os.Truncate(p, 10) }},
		{Stopped, "missing", os.Remove},
		{Stopped, "damaged", func(p string) error { return os.Truncate(p, 10) }},
		{Stopped, "later version", func(p string) error { return os.WriteFile(p, []byte(`{"version": 2}`), 0o600) }},
		{Stopped, "symbolic links", func(p string) error { return errors.Join(os.Remove(p), os.Symlink(p, p)) }},
		{Records, "empty", func(p string) error { return os.Truncate(p, 0) }},
		{Records, "cut short", func(p string) error { return os.Truncate(p, int64(len(whole)-10)) }},
		{Records, "mode 0664", func(p string) error { return os.Chmod(p, 0o664) }},
		{Records, "not a regular file", func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) }},
		{Records, "more than it can need", func(p string) error { return os.Truncate(p, 1<<28+1) }},
		{Records, "missing", os.Remove},
		{Version, "format 7", func(p string) error { return os.WriteFile(p, []byte("7"), 0o600) }},
		{Version, "damaged", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{Records + records.Aside, "not used any more", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
	} {
		if strings.HasPrefix(w.says, "user") && os.Geteuid() != 0 {
			continue // it takes root to give a file away
		}
		dir := directory(t)
		if err := w.spoil(filepath.Join(dir, w.file)); err != nil {
			t.Fatal(err)
		}
		c, err := Look(dir)
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Problems(); len(p) != 1 || p[0].Name != w.file || !strings.Contains(p[0].Problem, w.says) || p[0].Remedy == "" {
			t.Errorf("%s, %s: %+v", w.file, w.says, p)
		}
	}
}

// A file that is missing is shown without a size and a time.
func TestAMissingFileHasNoTime(t *testing.T) {
	dir := directory(t)
	if err := os.Remove(filepath.Join(dir, Key)); err != nil {
		t.Fatal(err)
	}
	c, err := Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Print(&out)
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == Key && words[1]+words[2] == "--" {
			return
		}
	}
	t.Errorf("show prints\n%s", out.String())
}

// What is to be done about a mark is said once, and suits what is wrong with it.
func TestRemediesOfTheMark(t *testing.T) {
	for content, want := range map[string][2]string{
		"7\n": {"later version", "install that version again"}, "": {"damaged", "write 1 into it"},
	} {
		dir := directory(t)
		write(t, dir, Version, content)
		c, err := Look(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.PrintProblems(&out)
		if says := out.String(); !strings.Contains(says, want[0]) || strings.Count(says, want[1]) != 1 || strings.Contains(says, "install") != (content != "") {
			t.Errorf("%q: %s", content, says)
		}
	}
}

// A directory in use is seen as such, and is not copied.
func TestADirectoryInUseIsNotCopied(t *testing.T) {
	dir := directory(t)
	f, err := os.Open(filepath.Join(dir, Lock))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if c, err := Look(dir); err != nil || !c.Used {
		t.Errorf("%+v, %v", c, err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	if err := Copy(dir, to); !errors.Is(err, ErrUsed) {
		t.Errorf("copied: %v", err)
	}
	f.Close()
	if err := Copy(dir, to); err != nil {
		t.Error(err)
	}
}

// Commands that look at a directory or copy it do not take each other for a daemon.
func TestLooksAndCopiesShareADirectory(t *testing.T) {
	dir := directory(t)
	if err := unused(dir, func() error {
		if c, err := Look(dir); err != nil || c.Used {
			t.Errorf("a look beside another: %+v, %v", c, err)
		}
		return Copy(dir, filepath.Join(t.TempDir(), "backup"))
	}); err != nil {
		t.Errorf("a copy beside another: %v", err)
	}
}

// A daemon can start while the index is copied. Then there is no backup.
func TestAStartSpoilsTheCopyOfTheIndex(t *testing.T) {
	for _, ended := range []bool{false, true} {
		dir, to := directory(t), filepath.Join(t.TempDir(), "backup")
		lock, err := os.Open(filepath.Join(dir, Lock))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		err = copyWith(dir, to, func(string, string) error {
			if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
				t.Errorf("a daemon cannot start: %v", err)
			}
			s, err := records.Open(filepath.Join(dir, Records))
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if ended {
				lock.Close()
			}
			return nil
		})
		if err == nil || errors.Is(err, ErrUsed) == ended {
			t.Errorf("the daemon has ended %t: %v", ended, err)
		}
		if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
			t.Errorf("it leaves %q", left)
		}
	}
}

// The files of the index are in the copy, for the daemon alone.
func TestTheIndexIsCopied(t *testing.T) {
	dir, to := directory(t), filepath.Join(t.TempDir(), "backup")
	if err := os.MkdirAll(filepath.Join(dir, Index, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(Index, "a", "file")
	write(t, dir, name, "content")
	if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Copy(dir, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	for name, want := range map[string]os.FileMode{name: 0o600, filepath.Dir(name): 0o700, Index: 0o700} {
		if is, err := os.Stat(filepath.Join(to, name)); err != nil || is.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, is.Mode(), err)
		}
	}
}

// What a backup left that was killed is named, and stays.
func TestWhatAKilledBackupLeftIsNamed(t *testing.T) {
	dir, to := directory(t), filepath.Join(t.TempDir(), "backup")
	if err := os.Mkdir(to+".partial", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Copy(dir, to); err == nil || !strings.Contains(err.Error(), to+".partial") || !strings.Contains(err.Error(), "remove it") {
		t.Error(err)
	}
	if _, err := os.Stat(to + ".partial"); err != nil {
		t.Error(err)
	}
}

// A backup that ends too early, at whichever byte, makes no directory.
func TestABackupIsWholeOrNotThere(t *testing.T) {
	dir := directory(t)
	var whole bytes.Buffer
	if err := Write(&whole, dir, func() ([]byte, error) { return records.CopyOf(filepath.Join(dir, Records)) }); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	const last = 1024 // bytes at the end of an archive that say nothing
	for n := 0; n < whole.Len()-last-512; n += 100 {
		if err := Read(bytes.NewReader(whole.Bytes()[:n]), to); err == nil {
			t.Fatalf("the first %d bytes of %d are a backup", n, whole.Len())
		}
		if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
			t.Fatalf("the first %d bytes leave %q", n, left)
		}
	}
	if err := Read(&whole, to); err != nil {
		t.Fatal(err)
	}
	was, err := Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	is, err := Look(to)
	if err != nil || len(is.Problems()) > 0 || is.Starts < was.Starts+4096 || len(is.Clients) != len(was.Clients) {
		t.Errorf("%+v, %v", is, err)
	}
}
