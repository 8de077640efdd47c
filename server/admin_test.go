package server_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// command runs the program with these arguments. It returns the program's standard output (out) and its standard error (failed).
func command(t testing.TB, args ...string) (out, failed string) {
	t.Helper()
	var o, e bytes.Buffer
	c := exec.CommandContext(testContext(t), binary(t), args...)
	c.Stdout, c.Stderr = &o, &e
	if err := c.Run(); err == nil && e.Len() > 0 || err != nil && e.Len() == 0 {
		t.Fatalf("%q: %v, and says %q", args, err, e.String())
	}
	return o.String(), e.String()
}

// ask runs a command of the administrator at the daemon. The command has to succeed.
func (d *daemon) ask(t testing.TB, args ...string) string {
	t.Helper()
	out, failed := command(t, append(args, "--state-dir", d.state)...)
	if failed != "" {
		t.Fatalf("%q: %s", args, failed)
	}
	return out
}

// asked runs a command with --json, and decodes its output.
func asked[T any](t testing.TB, d *daemon, args ...string) (v T) {
	t.Helper()
	out := d.ask(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%q prints %q: %v", args, out, err)
	}
	return v
}

// opened is a file that a client has open.
type opened struct {
	client.NFS4
	client.Opened4
}

// open opens a file of the daemon by a session of its own, and makes it if it is not there.
func (d *daemon) open(t testing.TB, name string) opened {
	t.Helper()
	ctx, n := testContext(t), d.session(t, "tcp", client.Callbacks{})
	dir, err := n.Walk(ctx, nil, "/")
	if err != nil {
		t.Fatal(err)
	}
	o, err := n.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: []byte("opener"), Access: wire.Open4ShareAccessBoth,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.CloseFile(ctx, o.File, o.StateID) }) // a test may have taken it away
	return opened{n, o}
}

// status says what the daemon is, and clients who holds files open.
func TestStatusAndClientsOfARunningDaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	d.open(t, "file")
	st := asked[admin.Status](t, d, "status")
	if st.State != "serving" || st.Condition != "serving" || st.PID != d.PID() || st.Version != "v0-test" || st.Exports != 1 || st.Clients != 1 || st.Opens != 1 || st.Connections == 0 {
		t.Errorf("status: %+v", st)
	}
	if out := d.ask(t, "status"); !strings.Contains(out, d.tcp.String()) || !strings.Contains(out, d.rdma.String()) {
		t.Errorf("status does not name the addresses:\n%s", out)
	}
	all := asked[[]admin.Client](t, d, "clients")
	if len(all) != 1 || all[0].Kind != "4.1+" || all[0].Opens != 1 || all[0].Sessions != 1 || !all[0].Confirmed || all[0].Expired {
		t.Errorf("clients: %+v", all)
	}
	if c := &all[0]; c.Minor == nil || *c.Minor != 2 || c.Implementation != "nfsrdmad client" || c.Domain != "github.com" ||
		c.Callbacks != "up" || !strings.HasPrefix(c.CallbackAddress, c.Address+":") {
		t.Errorf("how the client introduced itself, and can be called: %+v", c)
	}
	if out := d.ask(t, "clients"); !strings.Contains(out, all[0].ID) || !strings.Contains(out, all[0].Address) {
		t.Errorf("the table of clients:\n%s", out)
	}
}

// Each command says what to do if no daemon runs, and if there is no socket.
func TestCommandsWithoutADaemon(t *testing.T) {
	for _, name := range []string{"status", "clients", "opens", "locks", "calls", "exports", "exports stop /", "exports start /", "reload", "log-level", "report"} {
		_, failed := command(t, append(strings.Fields(name), "--state-dir", t.TempDir())...)
		if !strings.Contains(failed, "no daemon answers") || !strings.Contains(failed, "--socket") {
			t.Errorf("%s: %q", name, failed)
		}
	}
	none := filepath.Join(t.TempDir(), "none.toml")
	if err := os.WriteFile(none, []byte("admin_socket = \"none\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, failed := command(t, "status", "--config", none); !strings.Contains(failed, "admin_socket") {
		t.Errorf("without a socket: %q", failed)
	}
}

// A daemon that was killed leaves its socket, and the next one replaces it. An orderly end removes it.
func TestTheSocketEndsWithItsDaemon(t *testing.T) {
	d := start(t, "rw,insecure")
	d.Kill()
	if _, failed := command(t, "status", "--state-dir", d.state); !strings.Contains(failed, "no daemon answers") {
		t.Errorf("after a kill: %q", failed)
	}
	d = startOn(t, d.export, d.state, "rw,insecure")
	d.ask(t, "status")
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Fatalf("it ends with status %d", status)
	}
	if _, err := os.Stat(filepath.Join(d.state, "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// If the socket cannot be made, the daemon serves without it, and says so in one line.
func TestDaemonWithoutItsSocket(t *testing.T) {
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "admin.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := startOn(t, t.TempDir(), state, "rw,insecure")
	d.AwaitLine("cannot make the administrator's socket")
	ctx := testContext(t)
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Null(ctx); err != nil {
		t.Error(err)
	}
}

// Other users may not ask, whatever the mode of the socket is, and are told what to do.
func TestOtherUsersMayNotAsk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	d := start(t, "rw,insecure")
	socket := filepath.Join(t.TempDir(), "s")
	if err := os.Link(filepath.Join(d.state, "admin.sock"), socket); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) string {
		c := exec.CommandContext(testContext(t), binary(t), "status", "--socket", "/proc/self/fd/3")
		f, err := os.OpenFile(socket, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.ExtraFiles = []*os.File{f}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
		out, _ := c.CombinedOutput()
		return string(out)
	}
	if out := as(65534); !strings.Contains(out, "permission denied") || !strings.Contains(out, "as root") {
		t.Errorf("with mode 0600: %q", out)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if out := as(65534); !strings.Contains(out, "user 65534 may not ask") {
		t.Errorf("with mode 0666: %q", out)
	}
	if out := as(0); !strings.Contains(out, "serving") {
		t.Errorf("root: %q", out)
	}
}
