//go:build interop

package krb5

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An export with require_account serves alice, who has an account, and refuses bob, who has none.
// A reload by SIGHUP changes that for existing connections too. One log line names the remedy.
func TestRequireAccount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a server that acts as its callers runs as root")
	}
	s := newSite(t, krb5realm.ETypes[0])
	t.Setenv("KRB5_CONFIG", s.conf)
	bob := filepath.Join(s.Dir, "bob")
	for _, err := range []error{s.AddUser("bob", password, s.etype), s.Login("bob", password, bob, s.conf)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, config := t.TempDir(), filepath.Join(t.TempDir(), "nfsrdmad.toml")
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	state := t.TempDir()
	configure := func(more string) {
		text := fmt.Sprintf("rdma = [\"none\"]\ntcp = [%q]\nrpcbind = false\nstate_dir = %q\n"+
			"[kerberos]\nkeytab = %q\nrealm = \"KRB5.TEST\"\nprincipals = [\"alice@KRB5.TEST=daemon\"]\n"+
			"[[export]]\npath = %q\nname = \"/data\"\noptions = \"rw,insecure,sec=krb5p%s\"\n", addr, state, s.keytab, dir, more)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(",require_account")
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/nfsrdmad").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	daemon := servertest.StartProcess(t, exec.Command(program, "serve", "--config", config))
	daemon.AwaitLine("serving")

	alice, guest := accessOf(t, addr, s.cache), accessOf(t, addr, bob)
	if three, four := alice(); three != nil || four != nil {
		t.Errorf("alice: %v; %v", three, four)
	}
	for range 3 {
		three, four := guest()
		var refused *client.StatusError
		if !errors.As(three, &refused) || refused.Status != nfs3wire.NFS3ErrAccess {
			t.Errorf("bob by NFSv3: %v", three)
		}
		if client.StatusOf(four) != wire.NFS4ErrAccess {
			t.Errorf("bob by NFSv4: %v", four)
		}
	}
	const line = "principal without an account refused"
	said := daemon.AwaitLine(line)
	for _, word := range []string{"bob@KRB5.TEST", "/data", "kerberos.principals", "127.0.0.1"} {
		if !strings.Contains(said, word) {
			t.Errorf("the log does not say %q: %s", word, said)
		}
	}
	if n := strings.Count(daemon.Output(), line); n != 1 {
		t.Errorf("%d lines of it", n)
	}
	reload := func(more string) {
		before := strings.Count(daemon.Output(), "configuration read again")
		configure(more)
		daemon.Signal(syscall.SIGHUP)
		await.Until(t, "the configuration is read again", func() bool { return strings.Count(daemon.Output(), "configuration read again") > before })
	}
	reload("")
	if three, four := guest(); three != nil || four != nil {
		t.Errorf("bob, without the option: %v; %v", three, four)
	}
	reload(",require_account")
	if three, four := guest(); three == nil || four == nil {
		t.Errorf("bob, with the option again: %v; %v", three, four)
	}
}

// accessOf connects as the principal of a credential cache. It returns a function that accesses a
// file over NFSv3 and NFSv4.2.
func accessOf(t *testing.T, addr netip.AddrPort, cache string) func() (three, four error) {
	t.Helper()
	t.Setenv("KRB5CCNAME", cache)
	to := at(client.TCP, addr)
	to.Security = security(t, client.Kerberos{Flavor: client.Krb5p})
	ctx := within(t)
	c, err := client.Dial(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	root, err := c.MountRoot(ctx, "/data", 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := client.DialSession(ctx, client.SessionConfig{Target: to})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	n := client.NFS4{Session: x, Patient: true}
	return func() (three, four error) {
		if _, err := c.NFS3().Getattr(ctx, root); err != nil {
			t.Errorf("GETATTR of the root, as when mounting: %v", err)
		}
		dir, err := n.Walk(ctx, nil, "/data")
		if err == nil {
			_, err = n.Getattr(ctx, dir, wire.Bits(wire.Fattr4Type))
		}
		if err != nil {
			t.Errorf("the root by NFSv4, as when mounting: %v", err)
		}
		_, _, three = c.NFS3().Lookup(ctx, root, "file")
		_, four = n.Walk(ctx, dir, "file")
		return three, four
	}
}
