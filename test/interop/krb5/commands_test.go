//go:build interop

package krb5

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// The commands of nfsrdmad work with Kerberos through their flags.
func TestCommandsUnderKerberos(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	s.asAlice(t)
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/nfsrdmad").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) (string, int) {
		t.Helper()
		c := exec.CommandContext(within(t), program, args...)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		return string(out), c.ProcessState.ExitCode()
	}
	overTCP, overRDMA := serveBoth(t, s, "rw,insecure,sec=krb5p")
	named := []string{"--sec", "krb5p", "--server-principal", target}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"probe", append([]string{"probe", overRDMA.String(), "--transport", "rdma"}, named...), 0, "krb5p with " + acceptorName},
		{"probe without a key for that name", []string{"probe", overTCP.String(), "--transport", "tcp", "--sec", "krb5"}, 1, "Kerberos failed"},
		{"bench", append([]string{"bench", "127.0.0.1:/data", "--port", fmt.Sprint(overTCP.Port()), "--ops", "20", "--workload", "getattr", "--nfs", "4.2"}, named...), 0, "sec=krb5p"},
		{"bench by a keytab", append([]string{"bench", "127.0.0.1:/data", "--transport", "rdma", "--port", fmt.Sprint(overRDMA.Port()), "--ops", "20", "--workload", "getattr", "--keytab", s.machineKeytab, "--principal", machine}, named...), 0, "sec=krb5p"},
		{"a relay that shares by mistake", append([]string{"relay", "--listen", "127.0.0.1:0", overRDMA.String()}, named...), 2, "--share-principal"},
		{"a flavor that is none", []string{"probe", "127.0.0.1", "--sec", "krb6"}, 2, "none of sys, krb5, krb5i, krb5p"},
		{"a keytab without Kerberos", []string{"probe", "127.0.0.1", "--keytab", s.keytab}, 2, "belong to --sec"},
		{"a principal without a keytab", []string{"probe", "127.0.0.1", "--sec", "krb5", "--principal", "x"}, 2, "--keytab"},
		{"a keytab that is not there", []string{"probe", "127.0.0.1", "--sec", "krb5", "--keytab", "/none"}, 1, "/none"},
		{"a user beside Kerberos", append([]string{"bench", "127.0.0.1:/data", "--uid", "5"}, named...), 2, "--uid"},
		{"flags of a relay without Kerberos", []string{"relay", "--listen", "127.0.0.1:0", "--share-principal", "127.0.0.1"}, 2, "belong to --sec"},
	} {
		if out, status := run(c.args...); status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit status %d, want %d and %q", c.name, status, c.status, c.says)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	through := at(client.TCP, l.Addr().(*net.TCPAddr).AddrPort())
	l.Close()
	r := servertest.StartProcess(t, exec.Command(program, append([]string{
		"relay", "--listen", through.Address(), "--share-principal", "--insecure", overRDMA.String(),
	}, named...)...))
	r.AwaitLine("relaying")
	c, err := client.Dial(within(t), through)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.MountRoot(within(t), "/data", 0)
	if err == nil {
		_, err = c.NFS3().Mkdir(within(t), root, "by-the-relay", nfs3wire.Sattr3{})
	}
	if err != nil {
		t.Errorf("through the relay: %v", err)
	}
	r.Signal(syscall.SIGTERM)
	if status := r.Wait(); status != 0 {
		t.Errorf("the relay ends with %d", status)
	}
}
