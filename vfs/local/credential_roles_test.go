package local_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// TestCredentialsMatrix runs each kind of daemon (role) in a process of its own: the test binary
// executes itself with another identity and runs TestRole.

const (
	roleVar = "LOCAL_TEST_ROLE"
	rootVar = "LOCAL_TEST_ROOT"
	daemon  = 1234 // the user and group of a daemon that is not user 0
)

type role struct {
	attr    syscall.SysProcAttr
	switchs bool
	kernel  bool // true if the daemon may open files by handle
	suite   bool // true if the daemon runs the acceptance suite
}

var roles = map[string]role{
	"root": {switchs: true, kernel: true},
	"capabilities without root": {switchs: true, kernel: true, attr: syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: daemon, Gid: daemon},
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE,
			unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_MKNOD},
	}},
	"switching without reading": {switchs: true, attr: syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: daemon, Gid: daemon},
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID},
	}},
	"a user": {suite: true, attr: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: daemon, Gid: daemon}}},
	"a user with groups": {attr: syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: daemon, Gid: daemon, Groups: []uint32{daemon, 77}},
	}},
	"a namespace with one id": {suite: true, attr: syscall.SysProcAttr{
		Credential:  &syscall.Credential{NoSetGroups: true},
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: daemon, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: daemon, Size: 1}},
	}},
	"a namespace with many ids": {switchs: true, attr: syscall.SysProcAttr{
		Credential:                 &syscall.Credential{},
		Cloneflags:                 syscall.CLONE_NEWUSER,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: daemon, Size: 1}, {ContainerID: 1, HostID: 100000, Size: 65535}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: daemon, Size: 1}, {ContainerID: 1, HostID: 100000, Size: 65535}},
		GidMappingsEnableSetgroups: true,
	}},
}

// selfExec returns the path of a copy of the test binary that every user may execute.
func selfExec(t *testing.T) string {
	dir := publicDir(t)
	to := filepath.Join(dir, "test")
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// publicDir makes a temporary directory that every user can reach.
func publicDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err = os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCredentialsMatrix(t *testing.T) {
	if os.Getenv(roleVar) != "" {
		t.Skip("this is one of the processes")
	}
	if os.Geteuid() != 0 {
		t.Skip("takes user 0 to become the others")
	}
	exe := selfExec(t)
	for name, r := range roles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := publicDir(t)
			if r.attr.Credential != nil {
				if err := os.Chown(dir, daemon, daemon); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(exe, "-test.run=^TestRole$", "-test.v")
			cmd.Env = append(os.Environ(), roleVar+"="+name, rootVar+"="+dir)
			attr := r.attr
			cmd.SysProcAttr = &attr
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
				t.Skipf("this machine makes no such process: %v", err)
			}
			if err != nil || !strings.Contains(string(out), "--- PASS: TestRole") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestRole is the test that a process of TestCredentialsMatrix runs.
func TestRole(t *testing.T) {
	name := os.Getenv(roleVar)
	r, ok := roles[name]
	if !ok {
		t.Skip("not a process of the matrix")
	}
	if err := local.DropCapabilities(); err != nil {
		t.Fatal(err)
	}
	if got := local.CanSwitch(); got != r.switchs {
		t.Fatalf("CanSwitch: %v", got)
	}
	base := os.Getenv(rootVar)
	dir := filepath.Join(base, "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fs, err := local.New(local.Config{Root: dir, StateDir: filepath.Join(base, "state"), Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	if want := map[bool]string{true: "kernel", false: "index"}[r.kernel]; fs.Scheme() != want {
		t.Errorf("handles by %s", fs.Scheme())
	}
	m := matrix{t, fs, dir}
	self := local.Identity()
	t.Run("itself", func(t *testing.T) { m.with(t).itself(&self) })
	t.Run("set-id bits", func(t *testing.T) { m.with(t).setID(&self) })
	if r.suite {
		t.Run("suite", func(t *testing.T) {
			t.Setenv("TMPDIR", base)
			suite(t, "role", func(t *testing.T) string { return t.TempDir() }, true)
		})
	}
	if r.attr.Cloneflags != 0 {
		t.Run("unmapped", func(t *testing.T) { m.with(t).unmapped(&self) })
	}
	if r.switchs {
		t.Run("others", func(t *testing.T) { m.with(t).others(&self) })
		if self.UID == 0 {
			t.Run("set-gid without execution", func(t *testing.T) { m.with(t).setGID() })
			t.Run("set-id bits and storage", func(t *testing.T) { m.with(t).storageSetID() })
		}
		t.Run("links", func(t *testing.T) { m.with(t).links(&self) })
		t.Run("threads", func(t *testing.T) { m.with(t).threads(&self) })
	} else {
		t.Run("no others", func(t *testing.T) { m.with(t).noOthers(&self) })
		if len(self.Groups) > 0 {
			t.Run("fewer groups", func(t *testing.T) { m.with(t).itself(&vfs.Cred{UID: self.UID, GID: self.GID}) })
		}
	}
}
