package server_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// refused checks that a daemon ended at its start with the status, and with one line that
// contains says.
func refused(t *testing.T, p *servertest.Process, status int, says ...string) {
	t.Helper()
	if got := p.Wait(); got != status {
		t.Errorf("exit status %d, want %d", got, status)
	}
	out := p.Output()
	if strings.Contains(out, "\n") {
		t.Errorf("more than one line:\n%s", out)
	}
	for _, s := range says {
		if !strings.Contains(out, s) {
			t.Errorf("%q does not say %q", out, s)
		}
	}
}

// served checks that a daemon starts, and ends it.
func served(t *testing.T, p *servertest.Process) {
	t.Helper()
	p.AwaitLine("serving")
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.Output())
	}
}

// Clients can never reach the key of handles: the daemon refuses a state directory that is in an
// export or contains one, whatever paths and mounts lead to them.
func TestStateDirectoryIsApartFromExports(t *testing.T) {
	var listen = []string{"--tcp", "127.0.0.1:0", "--rdma", "none"}
	for _, c := range []struct {
		name          string
		before        string // a shell executes this first, in a separate mount namespace
		export, state string // beneath the test's directory
		says          []string
	}{
		{name: "beside", export: "a", state: "b"},
		{name: "beside, with the beginning of a name in common", export: "a", state: "a-state"},
		{name: "the same", export: "a", state: "a", says: []string{"is the export"}},
		{name: "within", before: "mkdir -p a/b/c", export: "a", state: "a/b/c", says: []string{"lies within the export"}},
		{name: "within, and not there yet", export: "a", state: "a/x/y", says: []string{"lies within the export"}},
		{name: "around", before: "mkdir -p b/c", export: "b/c", state: "b", says: []string{"lies within the state directory"}},
		{name: "within, the export by a symbolic link", before: "mkdir -p a/b; ln -s a link", export: "link", state: "a/b", says: []string{"lies within the export"}},
		{name: "within, the state directory by a symbolic link", before: "mkdir -p a/b; ln -s a/b link", export: "a", state: "link", says: []string{"lies within the export"}},
		{name: "within, and not there yet, by a symbolic link", before: "mkdir -p a/b; ln -s a/b link", export: "a", state: "link/c", says: []string{"lies within the export"}},
		{name: "within, the export by a bind mount", before: "mkdir -p a/b c; mount --bind a c", export: "c", state: "a/b", says: []string{"lies within the export"}},
		{name: "within, the state directory by a bind mount", before: "mkdir -p a/b/c d; mount --bind a/b d", export: "a", state: "d/c", says: []string{"lies within the export"}},
		{name: "within, both by bind mounts, and what is between them hidden", before: "mkdir -p a/b/c x y; mount --bind a x; mount --bind a/b/c y; mount -t tmpfs none a", export: "x", state: "y", says: []string{"lies within the export"}},
		{name: "around, the export by a bind mount", before: "mkdir -p b/c d; mount --bind b/c d", export: "d", state: "b", says: []string{"lies within the state directory"}},
		{name: "on a file system beneath the export, which is not exported", before: "mkdir a/b; mount -t tmpfs -o mode=0700 none a/b", export: "a", state: "a/b"},
		{name: "bind mounts of siblings", before: "mkdir -p p/a p/b x y; mount --bind p/a x; mount --bind p/b y", export: "x", state: "y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.before, "mount") && os.Geteuid() != 0 {
				t.Skip("mounting takes root")
			}
			dir, err := os.MkdirTemp(scratch, "apart") // --export takes no commas, which t.TempDir leaves in names
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
				t.Fatal(err)
			}
			script := fmt.Sprintf("cd '%s'\n%s\nexec \"$@\"", dir, c.before)
			args := []string{"sh", "-ec", script, "sh", binary(t), "serve", "--state-dir", filepath.Join(dir, c.state), "--export", filepath.Join(dir, c.export)}
			if strings.Contains(c.before, "mount") {
				args = append([]string{"unshare", "--mount", "--propagation", "private"}, args...)
			}
			p := servertest.StartProcess(t, exec.Command(args[0], append(args[1:], listen...)...))
			if c.says == nil {
				served(t, p)
				return
			}
			refused(t, p, 2, append(c.says, "--state-dir", c.state)...)
			if _, err := os.Stat(filepath.Join(dir, c.state, "lock")); err == nil {
				t.Error("it wrote into the state directory")
			}
			if strings.Contains(c.name, "not there") {
				if _, err := os.Stat(filepath.Join(dir, c.state)); err == nil {
					t.Error("it made the state directory")
				}
			}
		})
	}
}

// The daemon refuses a key that other users may have read, and a state directory in which they
// may replace it.
func TestStateIsTheDaemonsAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		does string // a shell command in the state directory of an earlier daemon
		says []string
	}{
		{"as it was made", "true", nil},
		{"a key to be read only", "chmod 0400 handle.key", nil},
		{"a directory that all may read", "chmod 0755 .", nil},
		{"a key that all may read", "chmod 0644 handle.key", []string{"handle.key", "mode 0644", "chmod 0600", "remove it"}},
		{"a key that its group may read", "chmod 0640 handle.key", []string{"handle.key", "mode 0640", "chmod 0600"}},
		{"a key that all may write", "chmod 0602 handle.key", []string{"handle.key", "mode 0602", "chmod 0600"}},
		{"a key of another user", "chown 1001 handle.key", []string{"handle.key", "user 1001", "chown"}},
		{"a key that is a symbolic link", "mv handle.key ../elsewhere; ln -s ../elsewhere handle.key", []string{"handle.key", "symbolic link"}},
		{"a key that is a pipe", "rm handle.key; mkfifo -m 0600 handle.key", []string{"handle.key", "not a regular file"}},
		{"a directory that all may write", "chmod 0777 .", []string{"mode 0777", "chmod go-w"}},
		{"a directory that all may write with the sticky bit", "chmod 1777 .", []string{"mode 1777", "chmod go-w"}},
		{"a directory that its group may write", "chmod 0770 .", []string{"mode 0770", "chmod go-w"}},
		{"a directory of another user", "chown 1001 .", []string{"user 1001", "chown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.does, "chown") && os.Geteuid() != 0 {
				t.Skip("giving files away takes root")
			}
			state := filepath.Join(t.TempDir(), "state")
			serve := func() *servertest.Process {
				return nfsrdmad(t, "serve", "--state-dir", state, "--tcp", "127.0.0.1:0", "--rdma", "none", "--export", t.TempDir())
			}
			served(t, serve())
			if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the directory that it made: %v, %v", info.Mode(), err)
			}
			if info, err := os.Stat(filepath.Join(state, "handle.key")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key that it made: %v, %v", info.Mode(), err)
			}
			does := exec.Command("sh", "-ec", c.does)
			does.Dir = state
			if out, err := does.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.says == nil {
				served(t, serve())
				return
			}
			refused(t, serve(), 1, append(c.says, state)...)
		})
	}
}

// A daemon does not start with two exports that both are to be the root (fsid=0). Its message
// names both.
func TestTwoRootsAreRefusedAtTheStart(t *testing.T) {
	refused(t, nfsrdmad(t, "serve", "--state-dir", filepath.Join(t.TempDir(), "state"), "--tcp", "127.0.0.1:0", "--rdma", "none",
		"--export", t.TempDir()+":/one,fsid=0", "--export", t.TempDir()+":/two,fsid=0"), 2, "/one", "/two", "only one export can be the root")
}
