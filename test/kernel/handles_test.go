//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// On a mount of NFS, a handle leads to its own file or is stale, as the tests of vfs/local show for the kinds of file
// systems that a machine can mount without a server: the daemon is started again, the mount ends, the same or another
// directory of the server is mounted there.
func TestHandlesOfMountsOfNFS(t *testing.T) {
	t.Parallel()
	lab.Run(t, lab.NewNetwork(t), lab.Options{Limit: 25 * time.Minute}, script(t, "nfs_disks")+script(t, "handles_nfs"), buildTest(t, "vfs/local"))
}
