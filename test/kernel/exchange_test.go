//go:build kernel

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// While a client has files open, another disk is mounted where the first one was. The disks have files of the
// same names with the same inode numbers and generations: btrfs numbers both from the start. The client's
// descriptors are stale then: no read returns the other disk's bytes, and no write arrives there. By path, the
// client sees the other disk.
func TestDiskExchangedUnderOpenFiles(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	hows := []string{"tcp", "rdma/4.2"}
	if everything() {
		hows = []string{"tcp", "rdma", "tcp/4.0", "rdma/4.0", "tcp/4.1", "rdma/4.1", "tcp/4.2", "rdma/4.2"}
	}
	for _, how := range hows {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "sync,crossmnt")
			at, images := filepath.Join(s.folder, "disk"), lab.Folder(t, "disks")
			s.daemon.Run("mkdir", "-p", at)
			put := func(name string) { s.daemon.Run("mount", "-t", "btrfs", "-o", "loop", filepath.Join(images, name), at) }
			for _, name := range []string{"one", "two"} {
				image := filepath.Join(images, name)
				for _, command := range [][]string{{"truncate", "-s", "128M", image}, {"mkfs.btrfs", "-q", image}} {
					if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
						t.Fatalf("%q: %v: %s", command, err, out)
					}
				}
				put(name)
				s.daemon.Run("sh", "-c", `for f in read written; do echo "of disk $1" >"$2/$f"; done`, "sh", name, at)
				s.daemon.Run("umount", at)
			}
			put("one")
			g := s.boot(lab.Options{Limit: 3 * time.Minute}, "exchange", how)
			g.Await("open")
			s.daemon.Run("umount", "-l", at)
			put("two")
			g.Signal("exchanged")
			g.Succeed()
			s.daemon.Run("cp", "-r", at, filepath.Join(images, "content"))
			for _, name := range []string{"read", "written", "by-path"} {
				if b, err := os.ReadFile(filepath.Join(images, "content", name)); err != nil || strings.TrimSpace(string(b)) != "of disk two" {
					t.Errorf("on the other disk %s has %q, %v", name, b, err)
				}
			}
		})
	}
}
