//go:build kernel

package kernel

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestNames renames and links files, makes symbolic links, device nodes and all other types of
// objects, and checks the effect of each on the attributes.
func TestNames(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 2 * time.Minute}, "names", transport)
	})
}

// For users other than root, the server enforces modes, with the exceptions that NFS makes.
func TestPermissions(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		serve(t, "sync").run(lab.Options{Limit: 2 * time.Minute}, "permissions", transport)
	})
}

// While another client adds and removes names in a directory of 10,000 names, each listing has
// every unchanged name exactly once.
func TestDirectoryChangesUnderReader(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		s := serve(t, "async")
		reader := s.boot(lab.Options{Limit: 4 * time.Minute}, "list", transport, "10000")
		reader.Await("filled")
		changer := s.boot(lab.Options{Limit: 4 * time.Minute}, "churn", transport)
		changer.Await("changing")
		reader.Signal("list")
		reader.Succeed()
		changer.Signal("stop")
		changer.Succeed()
	})
}
