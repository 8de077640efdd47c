package exports

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// ownMounts is the environment variable of a process with its own mount namespace.
const ownMounts = "EXPORTSTEST_OWN_MOUNTS"

// A client that enters mounts below an export costs no look at the list of all mounts, however many it enters: the
// survey has read the list. Each look takes longer, the more mounts the machine has.
func TestEnteringMountsDoesNotReadTheListOfMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes user 0")
	}
	if os.Getenv(ownMounts) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), ownMounts+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	const tmpfs, bound = 61, 40
	base, elsewhere := t.TempDir(), t.TempDir()
	var points []string
	for i := range tmpfs + bound {
		at, source, kind, flags := filepath.Join(base, fmt.Sprint(i)), "many", "tmpfs", uintptr(0)
		if i >= tmpfs {
			source, kind, flags = filepath.Join(elsewhere, fmt.Sprint(i)), "", unix.MS_BIND
			if err := os.Mkdir(source, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(source, at, kind, flags, ""); err != nil {
			t.Fatalf("mounting %s: %v", at, err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		points = append(points, at)
	}
	offer, set := offerOf(NewFilesystems(t.TempDir(), zap.NewNop(), 16*descriptors), zap.NewNop())
	if _, err := offer.Serve(t.Context(), []config.Export{{Path: config.Dir{Path: base}, Name: "/srv", Options: options(t, "crossmnt,insecure")}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeSet(set); err != nil {
			t.Error(err)
		}
	})
	top := set.Table.ByID(set.Table.Mounts()[0].TopID)
	var list int
	if text, err := os.ReadFile(mountinfo.File); err != nil {
		t.Fatal(err)
	} else {
		list = len(text)
	}
	before := mountinfo.Reads()
	for _, n := range []int{1, 100} {
		bytes := bytesRead(t)
		for _, at := range points[:n] {
			enterMount(t, set.Table, top, at)
		}
		if now := mountinfo.Reads(); now != before {
			t.Errorf("entering %d mounts reads the list of mounts %d times", n, now-before)
			before = now
		}
		// This also sees a reader that does not use package mountinfo.
		if bytes = bytesRead(t) - bytes; bytes > n*list/2 {
			t.Errorf("entering %d mounts reads %d bytes, and the list of mounts has %d", n, bytes, list)
		}
		points = points[n:]
	}
	if len(points) > 0 {
		t.Errorf("%d mounts were not entered", len(points))
	}
}

// enterMount follows a name onto the mount at a path, as LOOKUP does, and asks for its attributes, also that of the
// directory that it covers.
func enterMount(t *testing.T, table *export.Table, top *export.Export, at string) {
	t.Helper()
	var e *export.Export
	var err error
	await.Until(t, at+" is open", func() bool {
		e, err = table.Mounted(&rpc.Conn{}, &rpc.Cred{}, top, at, false)
		return err != vfs.ErrDelay
	})
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	var a vfs.Attr
	if err := e.FS.GetAttr(&vfs.Op{Cred: &vfs.Cred{}, Want: vfs.WantMountedOn}, e.FS.Root(), &a); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if a.MountedOn == 0 || a.MountedOn == a.FileID {
		t.Errorf("%s covers the file %d, and is the file %d", at, a.MountedOn, a.FileID)
	}
}

// bytesRead returns how many bytes this process has read with read(2) and its like (proc(5), rchar).
func bytesRead(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	n, err := strconv.Atoi(strings.TrimPrefix(first, "rchar: "))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
