package nfs3_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// ownMounts is the environment variable that is set in a child process with its own mount
// namespace.
const ownMounts = "NFS3TEST_OWN_MOUNTS"

// If this machine has mounted a file system on a name, the name cannot be removed or renamed,
// and a later attempt would not help. So the client gets NFS3ERR_ACCES, as from Linux's server,
// and not NFS3ERR_JUKEBOX.
func TestMountPointsCannotBeRemoved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	if os.Getenv(ownMounts) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), ownMounts+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"mounted", "directory"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bound", "file"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []struct {
		what, on, kind string
		flags          uintptr
	}{
		{"none", "mounted", "tmpfs", 0},
		{filepath.Join(dir, "file"), "bound", "", syscall.MS_BIND},
	} {
		at := filepath.Join(dir, m.on)
		if err := syscall.Mount(m.what, at, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mounting %s: %v", m.on, err)
		}
		defer syscall.Unmount(at, syscall.MNT_DETACH)
	}
	fs, err := local.New(local.Config{Root: dir, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	s := newSiteOver(t, nil, fs)
	for _, c := range []struct {
		what      string
		procedure wire.Procedure
		args      encoder
	}{
		{"RMDIR", wire.ProcRmdir, &wire.Rmdir3Args{Object: s.at(s.root, "mounted")}},
		{"REMOVE of a file that is mounted on", wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "bound")}},
		{"RENAME", wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "mounted"), To: s.at(s.root, "moved")}},
		{"RENAME over it", wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "directory"), To: s.at(s.root, "mounted")}},
		{"RENAME of a file that is mounted on", wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "bound"), To: s.at(s.root, "moved")}},
		{"RENAME over a file that is mounted on", wire.ProcRename, &wire.Rename3Args{From: s.at(s.root, "file"), To: s.at(s.root, "bound")}},
	} {
		d, err := s.run(s.message(c.procedure, c.args)).Results()
		if err != nil {
			t.Fatal(err)
		}
		want(t, c.what, wire.NFSStat3(d.Int32()), wire.NFS3ErrAccess)
	}
	for _, name := range []string{"mounted", "directory", "bound", "file"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
