//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// serveLocks is serve, with an rpcbind beside the daemon, through which NFSv3's clients find its lock manager.
func serveLocks(t *testing.T, flags ...string) *server {
	t.Helper()
	base := t.TempDir()
	s := &server{t: t, network: lab.NewNetwork(t), folder: filepath.Join(base, "export"), env: []string{"EXPORT=/work", "LOCKS=lock"}}
	if err := os.Mkdir(s.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil { // guests use the folder as other users too
		t.Fatal(err)
	}
	flags = append([]string{"--export", s.folder + ":/work,rw,no_root_squash,sync"}, flags...)
	command := lab.BesideRpcbind(lab.DaemonCommand(daemon(t), filepath.Join(base, "state"), flags...))
	s.daemon = lab.StartServer(t, s.network, "nfsrdmad", command, lab.PortRDMA, lab.PortTCP)
	return s
}

// TestLocksOfVersion3 locks by NFSv3 without nolock, from one client that mounts over TCP and one over RDMA. A client
// that waits is told when it has the lock, also that of a program that was killed.
func TestLocksOfVersion3(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	kernels := []lab.Kernel{lab.Usual()}
	if everything() {
		kernels = append(kernels, lab.Stock6_1)
	}
	for _, kernel := range kernels {
		t.Run(string(kernel), func(t *testing.T) {
			s := serveLocks(t)
			options := lab.Options{Kernel: kernel, Limit: 8 * time.Minute}
			first := s.bootAll(options, []string{"locks", "locks_version3"}, "tcp", "0")
			first.Await("locked")
			second := s.boot(options, "locks_version3", "rdma", "1")
			second.Await("waits")
			first.Signal("unlock")
			second.Await("granted")
			first.Signal("kill")
			second.Await("done")
			first.Signal("end")
			second.Succeed()
			first.Succeed()
		})
	}
}

// If the daemon is killed while a client of NFSv3 has a lock, the next daemon tells the client's status monitor, and the
// client reclaims the lock. Another client does not get it before.
func TestLocksOfVersion3OverARestart(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	s := serveLocks(t, "--config", shortLease(t))
	s.restartsWhileLocked("tcp")
}
