//go:build kernel

package kernel

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A client of version 3 whose machine is killed keeps its lock until it has booted again. Then its sm-notify says that it
// has restarted, and another client that waits gets the lock.
func TestLocksOfVersion3OfAClientThatReboots(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	s := serveLocks(t)
	folder := lab.Folder(t, "statd")
	const address = 7
	boots := func(which string) *lab.Guest {
		return s.boot(lab.Options{Limit: 4 * time.Minute, Address: address, Writable: []string{folder}, Env: []string{"STATD=" + filepath.Join(folder, "nfs")}}, "locks_reboot", which)
	}
	first := boots("first")
	first.Await("locked")
	other := s.boot(lab.Options{Limit: 4 * time.Minute}, "locks_reboot", "other")
	other.Await("waits")
	first.Kill()
	other.Signal("killed")
	other.Await("refused")
	again := boots("again")
	other.Await("granted")
	again.Signal("granted")
	other.Succeed()
	again.Succeed()
}
