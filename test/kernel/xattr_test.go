//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestXattrs sets, lists, copies and removes extended attributes with the usual programs. The daemon serves a folder
// in memory, whose values may be as long as Linux allows; Linux's own server serves ext4.
func TestXattrs(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tcp/4.2", "rdma/4.2"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("NFSRDMAD_LAB_SERVER") != "" {
				serve(t, "sync").run(lab.Options{Limit: 10 * time.Minute}, "xattr", how, "3500")
				return
			}
			base := lab.Folder(t, "xattr")
			folder := filepath.Join(base, "export")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			serveFolder(t, base, folder, "sync").run(lab.Options{Limit: 10 * time.Minute}, "xattr", how, "40000")
		})
	}
}
