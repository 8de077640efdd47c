package nfs4test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// A DaemonConfig is the configuration of a Daemon.
type DaemonConfig struct {
	// Program is the path of the daemon. Directory is the directory that it exports as its root.
	// State is its state directory; if empty, StartDaemon makes one.
	Program, Directory, State string
	// NFS and Kerberos have lines for the sections [nfs] and [kerberos] of its configuration.
	NFS, Kerberos string
	// Options are further options of the export.
	Options string
	// If Version2 is true, Peers connect over RDMA, with version 2 of RPC-over-RDMA.
	Version2 bool
}

// A Daemon is a server process on this machine. Its Site has Peers that connect to it (see Far).
type Daemon struct {
	*Site
	*servertest.Process
}

// StartDaemon starts a daemon at a random loopback address and waits until it serves. The daemon
// ends with the test.
func StartDaemon(t testing.TB, cfg DaemonConfig) *Daemon {
	t.Helper()
	if cfg.State == "" {
		cfg.State = filepath.Join(t.TempDir(), "state")
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))}), 2049)
	file := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	listen := fmt.Sprintf("tcp = [%q]\nrdma = [\"none\"]", at)
	if cfg.Version2 {
		listen = fmt.Sprintf("tcp = [\"none\"]\nrdma = [%q]\nrdma_versions = [1, 2]", at)
	}
	text := fmt.Sprintf("%s\nrpcbind = false\nstate_dir = %q\n\n[nfs]\n%s\n\n[kerberos]\n%s\n\n[[export]]\npath = %q\nname = \"/\"\noptions = \"rw,no_root_squash,insecure%s\"\n",
		listen, cfg.State, cfg.NFS, cfg.Kerberos, cfg.Directory, cfg.Options)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := servertest.StartProcess(t, exec.Command(cfg.Program, "serve", "--config", file))
	p.AwaitLine("serving")
	site := Far(t, at)
	site.version2 = cfg.Version2
	return &Daemon{site, p}
}
