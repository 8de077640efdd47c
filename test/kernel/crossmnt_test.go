//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// With the option crossmnt, a client sees each file system that is mounted below an export, and
// each as a separate file system.
func TestMountsBelowTheExport(t *testing.T) {
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
			s.mount("disk", "16m", "")
			s.mount("disk/deep one", "8m", "deep")
			if err := os.Mkdir(filepath.Join(s.folder, "plain"), 0o755); err != nil {
				t.Fatal(err)
			}
			g := s.boot(lab.Options{Limit: 2 * time.Minute}, "crossmnt", how)
			g.Await("in")
			s.mount("later", "8m", "later")
			g.Signal("later")
			g.Succeed()
		})
	}
}

// mount mounts a tmpfs on a new directory of the export, in the daemon's mount namespace. If
// content is not empty, mount writes it to a file in the tmpfs.
func (s *server) mount(name, size, content string) {
	s.t.Helper()
	at := filepath.Join(s.folder, name)
	s.daemon.Run("mkdir", "-p", at)
	s.daemon.Run("mount", "-t", "tmpfs", "-o", "size="+size, "memory", at)
	if content != "" {
		s.daemon.Run("sh", "-c", `echo "$1" >"$2/file"`, "sh", content, at)
	}
}
