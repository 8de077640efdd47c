package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
)

// An end that the daemon itself begins is no fault of a client: beside clients that are connected, it
// writes that it drains and that it has stopped, and nothing else.
func TestOrderlyEndReportsNoFault(t *testing.T) {
	ctx := testContext(t)
	d := start(t, "insecure")
	for i := range 16 {
		target := client.Target{Host: d.tcp.Addr().String(), Port: int(d.tcp.Port()), Transport: client.TCP, Cred: client.Self()}
		if i%4 == 3 {
			target.Transport, target.Port = client.RDMA, int(d.rdma.Port())
		}
		c, err := client.Dial(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 { // the others send nothing
			fh, err := c.MountRoot(ctx, "/", int(d.tcp.Port()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.NFS3().Getattr(ctx, fh); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := len(strings.Split(d.Output(), "\n"))
	d.Signal(syscall.SIGTERM)
	d.Wait()
	lines := strings.Split(d.Output(), "\n")[before:]
	if len(lines) != 2 || !strings.Contains(lines[0], "draining") || !strings.Contains(lines[1], "stopped") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// The question whether another server answers at the addresses that rpcbind has is the daemon's own, and
// no connection of a client.
func TestEndBesideRpcbindReportsNoFault(t *testing.T) {
	m := newMachine(t)
	rpcbind := servertest.StartProcess(t, m.command("rpcbind", "-f", "-w"))
	defer rpcbind.Kill()
	rpcbind.AwaitSocket(filepath.Join("/proc", fmt.Sprint(m.inner.PID()), "root/run/rpcbind.sock"))
	p := servertest.StartProcess(t, m.command(binary(t), "serve", "--state-dir", t.TempDir(), "--export", t.TempDir()+":/"))
	p.AwaitLine("serving")
	p.Signal(syscall.SIGTERM)
	p.Wait()
	if strings.Contains(p.Output(), "fault") {
		t.Errorf("%s", p.Output())
	}
}
