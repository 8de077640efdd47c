package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire4 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// reloading is a daemon with a configuration file that the test rewrites.
type reloading struct {
	*daemon
	t      *testing.T
	config string
	head   string
}

// startReloading starts a daemon with a configuration file. Each of exports is "DIR NAME
// OPTIONS".
func startReloading(t *testing.T, exports ...string) *reloading {
	t.Helper()
	ip := ownLoopback()
	d := &reloading{t: t, config: filepath.Join(t.TempDir(), "nfsrdmad.toml")}
	d.daemon = &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip)}
	d.head = fmt.Sprintf("tcp = [%q]\nrdma = [%q]\nstate_dir = %q\nrpcbind = false\n", d.tcp, d.rdma, t.TempDir())
	d.write(exports...)
	d.Process = nfsrdmad(t, "serve", "--config", d.config)
	d.AwaitLine("serving")
	return d
}

func (d *reloading) write(exports ...string) {
	d.t.Helper()
	text := d.head
	for _, e := range exports {
		f := strings.Fields(e)
		text += fmt.Sprintf("[[export]]\npath = %q\nname = %q\noptions = \"insecure,no_root_squash,%s\"\n", f[0], f[1], strings.Join(f[2:], ""))
	}
	if err := os.WriteFile(d.config, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// reload rewrites the file, sends SIGHUP, and waits until the daemon's output has one more line
// that contains says.
func (d *reloading) reload(says string, exports ...string) {
	d.t.Helper()
	before := strings.Count(d.Output(), says)
	d.write(exports...)
	d.Signal(syscall.SIGHUP)
	await(d.t, testContext(d.t), "it says "+says, func() bool { return strings.Count(d.Output(), says) > before })
}

// SIGHUP adds exports, changes their options and removes them. Clients that have mounted see
// the changes at once. A wrong configuration changes nothing.
func TestReload(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	d := startReloading(t, one+" /one rw")
	ctx := testContext(t)
	clients := d.dialBoth(t)
	files := make(map[string]servertest.Handle)
	for transport, c := range clients {
		dir, err := c.Mount(ctx, "/one")
		if err != nil {
			t.Fatal(err)
		}
		if files[transport], err = c.Create(ctx, dir, transport, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	each := func(what string, wants func(c *servertest.Client, h servertest.Handle) bool) {
		t.Helper()
		for transport, c := range clients {
			if !wants(c, files[transport]) {
				t.Errorf("%s: not so: %s", transport, what)
			}
		}
	}
	writes := func(c *servertest.Client, h servertest.Handle) bool {
		_, err := c.Write(ctx, h, 0, []byte("x"), wire.FileSync)
		return err == nil
	}
	reads := func(c *servertest.Client, h servertest.Handle) bool {
		_, err := c.Read(ctx, h, 0, make([]byte, 1))
		return err == nil
	}
	mounts := func(name string) func(c *servertest.Client, _ servertest.Handle) bool {
		return func(c *servertest.Client, _ servertest.Handle) bool {
			_, err := c.Mount(ctx, name)
			return err == nil
		}
	}
	each("written before", writes)

	d.reload("configuration read again", one+" /one rw", two+" /two rw")
	says(t, d.Process, `configuration read again`, `"added": ["/two"]`)
	if strings.Contains(d.Output(), "replaced") {
		t.Errorf("an export that did not change was replaced:\n%s", d.Output())
	}
	each("written after another export came", writes)
	each("/two is mounted", mounts("/two"))

	d.reload("closed an export that was replaced", one+" /one ro", two+" /two rw")
	each("read-only", func(c *servertest.Client, h servertest.Handle) bool { return reads(c, h) && !writes(c, h) })

	d.reload("reload failed", one+" /one rw,foo")
	says(t, d.Process, "reload failed", d.config+":8: ", `unknown export option \"foo\"`)
	d.reload("reload failed")
	each("as before", func(c *servertest.Client, h servertest.Handle) bool {
		return reads(c, h) && !writes(c, h) && mounts("/two")(c, h)
	})

	d.head += "[limits]\ncalls_in_flight = 7\n"
	d.reload("some changes of the configuration take effect at the next start only", two+" /two rw", one+" /one rw")
	says(t, d.Process, "some changes of the configuration take effect at the next start only", `["limits.calls_in_flight"]`)
	each("written again", writes)

	d.reload("configuration read again", two+" /two rw")
	each("stale", func(c *servertest.Client, h servertest.Handle) bool {
		_, err := c.GetAttr(ctx, h)
		return stale(err) && !mounts("/one")(c, h)
	})
	d.reload("configuration read again", two+" /two rw", one+" /one rw")
	each("good again", writes)
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// An export can be removed while its file system hangs. Other exports can still be added and
// removed. When the file system continues, the removed export is closed, and the daemon can end
// in order.
func TestReloadWhileAFileSystemHangs(t *testing.T) {
	m := stalled.Mount(t)
	defer m.LetGo()
	works := t.TempDir()
	d := startReloading(t, m.Dir+" /hangs rw", works+" /works rw")
	h, err := d.dialBoth(t)["tcp"].Mount(testContext(t), "/hangs")
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	hangs(t, d.daemon, m, "tcp", h, 3)
	m.AwaitHanging(1)
	d.reload("configuration read again", works+" /works rw", t.TempDir()+" /new rw")
	c := d.dialBoth(t)["rdma"]
	for _, name := range []string{"/works", "/new"} {
		if _, err := c.Mount(testContext(t), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.GetAttr(testContext(t), h); !stale(err) {
		t.Errorf("a handle of the export that was removed: %v", err)
	}
	if strings.Contains(d.Output(), "closed an export") {
		t.Errorf("it is closed while calls hang:\n%s", d.Output())
	}
	m.LetGo()
	d.AwaitLine("closed an export that was replaced or removed")
	ends(t, d.Process, syscall.SIGTERM, inOrder)
}

// SIGHUP changes the flavors that an export accepts from each network, also for existing
// connections, in each NFS version.
func TestReloadOfFlavors(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := startReloading(t, dir+" /one rw")
	_, noKeytab := os.Stat("/etc/krb5.keytab")
	ctx := testContext(t)
	threes := d.dialBoth(t)
	handles := make(map[string]servertest.Handle)
	fours := make(map[string]client.NFS4)
	var four client.Handle
	for transport, c := range threes {
		root, err := c.Mount(ctx, "/one")
		if err != nil {
			t.Fatal(err)
		}
		if handles[transport], err = c.Lookup(ctx, root, "d"); err != nil {
			t.Fatal(err)
		}
		fours[transport] = d.session(t, transport, client.Callbacks{})
		if four, err = fours[transport].Walk(ctx, nil, "/one/d"); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		options string
		served  bool
	}{
		{"rw", true},
		{"rw,sec=krb5", false},
		{"rw,sec=krb5p,sec=sys@127.0.0.0/8", true},
		{"rw,sec=sys,sec=krb5p@127.0.0.0/8", false},
		{"rw,sec=krb5p:sys", true},
	} {
		warned := strings.Count(d.Output(), "clients cannot use Kerberos")
		d.reload("configuration read again", dir+" /one "+step.options)
		if again := strings.Count(d.Output(), "clients cannot use Kerberos") > warned; noKeytab != nil && again != strings.Contains(step.options, "krb5") {
			t.Errorf("%s: warned of the keytab: %v", step.options, again)
		}
		for transport, c := range threes {
			_, err := c.GetAttr(ctx, handles[transport])
			if re, _ := errors.AsType[*rpc.ReplyError](err); (err == nil) != step.served || err != nil && (re == nil || re.Auth != rpc.AuthTooWeak) {
				t.Errorf("%s, NFSv3 over %s: %v", step.options, transport, err)
			}
			_, err = fours[transport].Getattr(ctx, four, wire4.Bits(wire4.Fattr4FileID))
			if (err == nil) != step.served || err != nil && !strings.Contains(err.Error(), wire4.NFS4ErrWrongSec.String()) {
				t.Errorf("%s, NFSv4 over %s: %v", step.options, transport, err)
			}
		}
	}
}

// If the file is written and SIGHUP sent twice in a row, as by two tools, the daemon serves
// the last content of the file.
func TestSecondSIGHUPIsServed(t *testing.T) {
	dirs := make([]string, 40)
	var first []string
	for i := range dirs {
		dirs[i] = t.TempDir()
		first = append(first, fmt.Sprintf("%s /e%02d rw", dirs[i], i))
	}
	d := startReloading(t, first[0])
	for range 5 {
		d.write(first...)
		d.Signal(syscall.SIGHUP)
		d.reload(`"added": ["/last"]`, first[0], dirs[1]+" /last rw")
		d.reload(`"removed": ["/last"]`, first[0])
	}
}
