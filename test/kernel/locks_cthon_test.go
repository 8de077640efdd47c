//go:build kernel

package kernel

import (
	"os"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestConnectathonLocks runs the lock tests of cthon04 over version 3, on both transports. The suite is not a package of
// Debian: NFSRDMAD_CTHON04 names its directory lock, in which tlock and tlocklfs are
// compiled, on Debian with
// CFLAGS="-DLINUX -DHAVE_SOCKLEN_T -DGLIBC=22 -DMMAP -DSTDARG -fno-strict-aliasing -include string.h -include unistd.h".
func TestConnectathonLocks(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	folder := os.Getenv("NFSRDMAD_CTHON04")
	if folder == "" {
		t.Skip("to run cthon04, set NFSRDMAD_CTHON04 to its directory lock, where tlock and tlocklfs are compiled")
	}
	for _, how := range []string{"tcp", "rdma"} {
		t.Run(how, func(t *testing.T) {
			s := serveLocks(t)
			s.env = append(s.env, "CTHON04="+folder)
			s.run(lab.Options{Limit: 9 * time.Minute}, "locks_cthon", how)
		})
	}
}
