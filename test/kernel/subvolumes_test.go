//go:build kernel

package kernel

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// find, du, tar, cp and rsync walk over the subvolumes and snapshots of a btrfs as on a local mount, also after
// a listing has shown the subvolumes.
func TestSubvolumes(t *testing.T) {
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
			s.daemon.Run("sh", "-ec", `
				truncate -s 256M "$1"
				mkfs.btrfs -q "$1"
				mkdir "$2"
				mount -o loop "$1" "$2"
				cd "$2"
				mkdir dir
				btrfs subvolume create a
				btrfs subvolume create dir/b
				echo v1 >a/f
				ln a/f a/link
				btrfs subvolume snapshot a snapshot
				btrfs subvolume create a/inner
				echo changed >a/f
				echo deep >a/inner/f
				echo b >dir/b/f`, "sh", filepath.Join(t.TempDir(), "image"), filepath.Join(s.folder, "disk"))
			g := s.boot(lab.Options{Limit: 5 * time.Minute}, "subvolumes", how)
			g.Succeed()
		})
	}
}
