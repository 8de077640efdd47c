package server_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// The daemon tells systemd that it serves before an rpcbind that does not answer has been given up.
func TestReadyBesideADeafRpcbind(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	mount(t, "run", "/run", "tmpfs", 0)
	l, err := net.Listen("unix", "/run/rpcbind.sock") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket := filepath.Join(t.TempDir(), "notify")
	n, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	cmd := exec.Command(binary(t), "serve", "--state-dir", t.TempDir(), "--tcp", servertest.FreePort(t, ownLoopback()).String(), "--rdma", "none", "--export", t.TempDir()+":/x")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	p := servertest.StartProcess(t, cmd)
	b := make([]byte, 4096)
	n.SetReadDeadline(time.Now().Add(time.Minute))
	for ready := false; !ready; {
		k, err := n.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		ready = strings.Contains(string(b[:k]), "READY=1")
	}
	if strings.Contains(p.Output(), "not registered with rpcbind") {
		t.Errorf("it waited for rpcbind:\n%s", p.Output())
	}
	p.AwaitLine("not registered with rpcbind")
}
