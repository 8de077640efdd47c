package local_test

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/doctables"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// kindIdentities says what identifies the file systems of a kind.
var kindIdentities = map[string]string{
	"ext2, ext3, ext4":    "the UUID",
	"XFS":                 "the UUID",
	"btrfs":               "the UUID; a handle names the subvolume, too",
	"F2FS, bcachefs, ZFS": "the UUID, for ZFS that of the dataset",
	"tmpfs":               "a UUID that the kernel makes at each mount, so handles do not outlast an unmount",
	"overlayfs":           "the identity of the topmost layer's file system, or that of the overlay if it has one (`uuid=on`); a handle names the layer, too",
	allOthers:             "the mount",
}

// docs/filesystems.md says of each kind of file system how long a handle lasts on it.
func TestDocumentedKindsOfFileSystems(t *testing.T) {
	doctables.Hold(t, "../../docs/filesystems.md", func(_, column string) (rows []string) {
		if column != "file system" {
			return nil
		}
		for _, k := range local.HandleKinds() {
			mounted, restarted := "handles are valid again", "handles stay valid"
			switch {
			case k.Name == "tmpfs":
				mounted, restarted = "stale, because the files are gone", "valid after a restart of the daemon"
			case !k.Lasts:
				mounted, restarted = "stale", "see below"
			}
			what := kindIdentities[k.Name]
			if what == "" {
				t.Errorf("what identifies %s?", k.Name)
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", k.Name, what, mounted, restarted))
		}
		return rows
	})
}
