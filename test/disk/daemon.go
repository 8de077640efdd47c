package disk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// Build compiles the daemon. The parameter tree is the directory of the source code, and program is
// the name of the executable file that Build writes. In this daemon, the sweeper, which looks for
// idle files once a second, runs at the interval `sweeping` instead.
func Build(tree, program string, sweeping time.Duration) error {
	source, err := filepath.Abs(filepath.Join(tree, "vfs/local/sweep.go"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	every := regexp.MustCompile(`(?m)^(\s+sweepEvery\s*=\s*)time\.Second$`)
	if len(every.FindAll(text, -1)) != 1 {
		return fmt.Errorf("%s does not say how often the sweeper looks", source)
	}
	hurried := program + ".sweep.go"
	if err := os.WriteFile(hurried, every.ReplaceAll(text, fmt.Appendf(nil, "${1}%d", sweeping)), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: hurried}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+".overlay", overlay, 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-overlay", program+".overlay", "-o", program, "./cmd/nfsrdmad")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	return nil
}

// A server is the program under test: it serves a file system on a disk.
type server interface {
	// Dial connects with a version of NFS: 3 for NFSv3, 41 for 4.1, 42 for 4.2.
	Dial(ctx context.Context, version int, overRDMA bool) (c caller, root client.Handle, err error)
	// Kill ends the server at once.
	Kill()
	Alive() bool
	Said() string
}

// A daemon is nfsrdmad in its own process.
type daemon struct {
	*servertest.Process
	tcp, rdma netip.AddrPort
}

const exportName = "/x"

func startDaemon(t testing.TB, program, dir, state string) server {
	t.Helper()
	d := &daemon{tcp: servertest.FreePort(t, netip.MustParseAddr("127.0.0.1")), rdma: servertest.FreePort(t, netip.MustParseAddr("127.0.0.1"))}
	config := filepath.Join(t.TempDir(), "nfsrdmad.toml")
	text := fmt.Sprintf(`
rdma = [%q]
tcp = [%q]
state_dir = %q
rpcbind = false
[[export]]
path = %q
name = %q
options = "rw,insecure,no_root_squash"
`, d.rdma, d.tcp, state, dir, exportName)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.Process = servertest.StartProcess(t, cmd)
	d.AwaitLine("serving")
	return d
}

func (d *daemon) Dial(ctx context.Context, version int, overRDMA bool) (caller, client.Handle, error) {
	target := client.Target{Transport: client.TCP, Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Cred: client.Self()}
	if overRDMA {
		target.Transport, target.Port = client.RDMA, int(d.rdma.Port())
	}
	return dial(ctx, target, version, exportName, int(d.tcp.Port()))
}

// dial connects to a server whose MOUNT protocol is on mountPort. It also returns the root of the
// export.
func dial(ctx context.Context, target client.Target, version int, export string, mountPort int) (caller, client.Handle, error) {
	if version == 3 {
		conn, err := client.Dial(ctx, target)
		if err != nil {
			return nil, nil, err
		}
		root, err := conn.MountRoot(ctx, export, mountPort)
		return caller3{conn.NFS3(), conn}, root, err
	}
	s, err := client.DialSession(ctx, client.SessionConfig{Target: target, Minor: uint32(version % 10)})
	if err != nil {
		return nil, nil, err
	}
	nfs := s.NFS4()
	nfs.Patient = true
	root, err := nfs.Walk(ctx, nil, export)
	return caller4{nfs, []byte("writer")}, root, err
}

func (d *daemon) Alive() bool {
	select {
	case <-d.Done():
		return false
	default:
		return true
	}
}

func (d *daemon) Said() string { return d.Output() }
