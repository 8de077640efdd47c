package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire3 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
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
	if out := d.ask(t, "clients"); !strings.Contains(out, all[0].ID) || !strings.Contains(out, all[0].Address) {
		t.Errorf("the table of clients:\n%s", out)
	}
}

// Each command says what to do if no daemon runs, and if there is no socket.
func TestCommandsWithoutADaemon(t *testing.T) {
	for _, name := range []string{"status", "clients", "opens", "locks", "calls", "exports", "reload", "log-level", "report"} {
		_, failed := command(t, name, "--state-dir", t.TempDir())
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
		f, err := os.OpenFile(socket, syscall.O_RDONLY|0x200000 /* O_PATH */, 0)
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

// opens shows paths, and locks show ranges, holders and those that wait. Both can be asked for a client, an export and a
// file.
func TestOpensAndLocksOfARunningDaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	one, other, third := d.open(t, "one"), d.open(t, "one"), d.open(t, "other")
	held, err := one.Lock(ctx, one.File, one.StateID, []byte("holder"), wire.WriteLt, client.Range4{Offset: 5, Length: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(ctx, other.File, other.StateID, []byte("waiter"), wire.ReadwLt, client.Range4{Length: 1<<64 - 1}); client.StatusOf(err) != wire.NFS4ErrDenied {
		t.Fatal("a lock that another client has: ", err)
	}
	path := filepath.Join(d.export, "one")
	all := asked[[]admin.Open](t, d, "opens")
	of := asked[[]admin.Open](t, d, "opens", "--file", path)
	if len(all) != 3 || len(of) != 2 || of[0].Path != path || of[0].Access != "rw" || of[0].Deny != "" || of[0].Export != "/" || of[0].Client == of[1].Client {
		t.Errorf("opens: %+v\nof one file: %+v", all, of)
	}
	if by := asked[[]admin.Open](t, d, "opens", "--client", of[0].Client, "--export", "/", "--file", of[0].Handle); len(by) != 1 || by[0] != of[0] {
		t.Errorf("of a client: %+v", by)
	}
	if err := os.Remove(filepath.Join(d.export, "other")); err != nil {
		t.Fatal(err)
	}
	if removed := d.ask(t, "opens"); !strings.Contains(removed, "/other (deleted)") {
		t.Errorf("a removed file:\n%s", removed)
	}
	locks := asked[[]admin.Lock](t, d, "locks")
	if len(locks) != 2 {
		t.Fatalf("locks: %+v", locks)
	}
	has, waits := locks[0], locks[1]
	if has.Waits {
		has, waits = waits, has
	}
	if has.Owner != "holder" || has.First != 5 || has.Last != 14 || !has.Write || has.Path != path {
		t.Errorf("the lock: %+v", has)
	}
	if !waits.Waits || waits.Owner != "waiter" || waits.Write || waits.By == nil || waits.By.Client != has.Client || waits.By.Owner != "holder" || waits.Asked == nil {
		t.Errorf("the waiter: %+v", waits)
	}
	if table := d.ask(t, "locks"); !strings.Contains(table, "waits for "+has.Client) || !strings.Contains(table, "0-end") {
		t.Errorf("the table of locks:\n%s", table)
	}
	if of := asked[[]admin.Lock](t, d, "locks", "--file", d.export); len(of) != 0 {
		t.Errorf("locks of a file without: %+v", of)
	}
	for _, wrong := range [][]string{{"opens", "--client", "x"}, {"locks", "--export", "/nowhere"}} {
		if _, failed := command(t, append(wrong, "--state-dir", d.state)...); !strings.Contains(failed, "nfsrdmad "+strings.TrimPrefix(wrong[1], "--")+"s") {
			t.Errorf("%q: %q", wrong, failed)
		}
	}
	if _, err := one.Unlock(ctx, one.File, held, wire.WriteLt, client.Range4{Offset: 5, Length: 10}); err != nil {
		t.Error(err)
	}
	_ = third
}

// A file is the same by every path that programs have, and by its digits. What is no file, or in no file system of an
// export, is refused, and so is an address that stands for a network.
func TestNamesOfFilesAndClients(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	d.open(t, "one")
	gone := d.open(t, "gone")
	strange := "strange \u009b2J \"\\ name"
	d.open(t, strange)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.export, link); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, filepath.Join(d.export, "one"))
	if err != nil {
		t.Fatal(err)
	}
	digits := asked[[]admin.Open](t, d, "opens", "--file", filepath.Join(d.export, "gone"))[0].Handle
	if err := os.Remove(filepath.Join(d.export, "gone")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(link, "one"), relative, digits, filepath.Join(d.export, strange)} {
		all := asked[[]admin.Open](t, d, "opens", "--file", file)
		if len(all) != 1 {
			t.Fatalf("%s: %+v", file, all)
		}
		if by := asked[[]admin.Open](t, d, "opens", "--file", all[0].Handle); len(by) != 1 || by[0] != all[0] {
			t.Errorf("%s by its digits: %+v", file, by)
		}
		if strings.Contains(all[0].Path, "\u009b") {
			t.Errorf("a path reaches the terminal as it is: %q", all[0].Path)
		}
		if all[0].Handle == digits {
			continue
		}
		if by := asked[[]admin.Open](t, d, "opens", "--file", all[0].Path); len(by) != 1 || by[0] != all[0] {
			t.Errorf("%s as the list shows it: %+v", file, by)
		}
	}
	_ = gone
	for name, wrong := range map[string][]string{
		"cannot be found":            {"release", "--file", filepath.Join(d.export, "gone")},
		"is in no file system":       {"release", "--file", "/proc/self/status"},
		"name 2001:db8:0:1::/64 for": {"evict", "2001:db8:0:1::5"},
		"name 2001:db8::/64 for":     {"release", "--client", "2001:db8::"},
		"there is no client":         {"opens", "--client", "2001:db8::5"},
	} {
		if _, failed := command(t, append(wrong, "--state-dir", d.state)...); !strings.Contains(failed, name) {
			t.Errorf("%q: %q", wrong, failed)
		}
	}
	if all := asked[[]admin.Open](t, d, "opens", "--client", "127.0.0.1/32"); len(all) != 3 {
		t.Errorf("a network of one address: %+v", all)
	}
}

// The command evict removes a client, and release takes its open files. The log has a line for each, and the client gets errors
// of the protocol.
func TestReleaseAndEvictAtARunningDaemon(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	ctx := testContext(t)
	one, other := d.open(t, "one"), d.open(t, "other")
	if taken := asked[admin.Taken](t, d, "release", "--file", filepath.Join(d.export, "one")); taken.Opens != 1 || len(taken.Clients) != 1 {
		t.Errorf("release: %+v", taken)
	}
	d.AwaitLine("by order of the administrator")
	_, err := one.Lock(ctx, one.File, one.StateID, []byte("l"), wire.ReadLt, client.Range4{Length: 1})
	if client.StatusOf(err) != wire.NFS4ErrAdminRevoked {
		t.Errorf("LOCK through an open that was taken: %v", err)
	}
	if _, err := other.Lock(ctx, other.File, other.StateID, []byte("l"), wire.ReadLt, client.Range4{Length: 1}); err != nil {
		t.Errorf("LOCK through another open: %v", err)
	}
	var of admin.Client
	for _, c := range asked[[]admin.Client](t, d, "clients") {
		if c.Opens == 1 {
			of = c
		}
	}
	if taken := asked[admin.Taken](t, d, "evict", of.ID); taken.Opens != 1 {
		t.Errorf("evict: %+v", taken)
	}
	d.AwaitLine("a client was removed by order of the administrator")
	for _, c := range asked[[]admin.Client](t, d, "clients") {
		if c.ID == of.ID {
			t.Errorf("it is still there: %+v", c)
		}
	}
	if _, failed := command(t, "evict", of.ID, "--state-dir", d.state); !strings.Contains(failed, "there is no client") {
		t.Errorf("evict again: %q", failed)
	}
}

// The command reload ends after the reload, and prints the exports that have changed. If the configuration is wrong, the command fails and prints the
// reason.
func TestReloadByCommand(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	d := startReloading(t, one+" /one ro")
	d.write(one+" /one ro", two+" /two rw")
	out, failed := command(t, "reload", "--config", d.config, "--json")
	var r admin.Reloaded
	if err := json.Unmarshal([]byte(out), &r); err != nil || failed != "" || len(r.Added) != 1 || r.Added[0] != "/two" || r.Condition != "serving" {
		t.Errorf("reload: %q, %q, %v", out, failed, err)
	}
	// The command reads the configuration to find the socket, so the mistake is in what only the daemon finds.
	d.write(one+" /one ro", two+" /one rw")
	if _, failed := command(t, "reload", "--socket", adminSocketOf(d)); !strings.Contains(failed, "reload failed: the old configuration stays in force") {
		t.Errorf("reload of a wrong configuration: %q", failed)
	}
}

// adminSocketOf returns the socket of the daemon.
func adminSocketOf(d *reloading) string {
	_, dir, _ := strings.Cut(d.head, "state_dir = \"")
	dir, _, _ = strings.Cut(dir, "\"")
	return filepath.Join(dir, "admin.sock")
}

// log-level changes what the daemon logs, and grace end says whether there was a grace period.
func TestLogLevelAndGraceByCommand(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	if l := asked[admin.Level](t, d, "log-level"); l.Level != "info" {
		t.Errorf("at the start: %+v", l)
	}
	if l := asked[admin.Level](t, d, "log-level", "error"); l.Level != "error" || asked[admin.Status](t, d, "status").LogLevel != "error" {
		t.Errorf("afterwards: %+v", l)
	}
	if _, failed := command(t, "log-level", "loud", "--state-dir", d.state); !strings.Contains(failed, "debug, info, warn, error") {
		t.Errorf("a level that does not exist: %q", failed)
	}
	if g := asked[admin.Grace](t, d, "grace", "end"); g.Was {
		t.Error("there was a grace period after a first start")
	}
	d.open(t, "file")
	d.Kill()
	d = startOn(t, d.export, d.state, "rw,insecure,no_root_squash")
	if !asked[admin.Status](t, d, "status").Grace {
		t.Fatal("there is no grace period after a restart")
	}
	if g := asked[admin.Grace](t, d, "grace", "end"); !g.Was || asked[admin.Status](t, d, "status").Grace {
		t.Errorf("grace end: %+v", g)
	}
	d.open(t, "another") // which would have to wait in the grace period
}

// While a file system hangs, calls shows which operation of which client waits for it, on which file, by versions 3 and 4.
// The command itself waits for nothing there, and nor do the other lists.
func TestCallsThatHangAreShown(t *testing.T) {
	m := stalled.Mount(t)
	d := startOn(t, m.Dir, t.TempDir(), "rw,insecure,no_root_squash")
	ctx := testContext(t)
	file := d.open(t, "file")
	c, err := servertest.DialTCP(ctx, d.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Mount(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Create(ctx, root, "other", 0o666)
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	written, other3 := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := file.Write(ctx, file.File, file.StateID, 0, []byte("data"), wire.FileSync4)
		written <- err
	}()
	go func() {
		_, err := c.Write(ctx, other, 0, []byte("data"), wire3.FileSync)
		other3 <- err
	}()
	m.AwaitHanging(2)
	shown := func(operation, name string) bool {
		for _, c := range asked[[]admin.Call](t, d, "calls") {
			if c.Operation == operation && c.File != nil && c.Path == filepath.Join(m.Dir, name) && c.Waits == "disk" && c.Export == "/" && c.Transport == "tcp" && len(c.Exports) == 1 {
				return true
			}
		}
		return false
	}
	await(t, testContext(t), "the WRITE by version 4 is shown", func() bool { return shown("WRITE", "file") })
	await(t, testContext(t), "the WRITE by version 3 is shown", func() bool { return shown("WRITE", "other") })
	if table := d.ask(t, "calls"); !strings.Contains(table, "nfs4 WRITE") || !strings.Contains(table, "nfs3 WRITE") {
		t.Errorf("the table of calls:\n%s", table)
	}
	for _, list := range []string{"status", "clients", "opens", "locks"} {
		d.ask(t, list)
	}
	m.LetGo()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := <-other3; err != nil {
		t.Error(err)
	}
	await(t, testContext(t), "no call is in progress", func() bool { return len(asked[[]admin.Call](t, d, "calls")) == 0 })
}

// exports shows the options in force after a reload, and an export that is not served, with the reason.
func TestExportsByCommand(t *testing.T) {
	one, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	d := startReloading(t, one+" /one ro,clients=127.0.0.0/8", one+" /two rw,nested")
	shown := func() map[string]admin.Export {
		out, failed := command(t, "exports", "--config", d.config, "--json")
		var all []admin.Export
		if err := json.Unmarshal([]byte(out), &all); err != nil || failed != "" {
			t.Fatal(out, failed, err)
		}
		by := make(map[string]admin.Export)
		for _, e := range all {
			by[e.Name] = e
		}
		return by
	}
	now := shown()
	if e := now["/one"]; e.State != "served" || e.Path != one || e.Everybody || !strings.HasPrefix(e.Options, "ro,") || !strings.Contains(e.Options, "clients=127.0.0.0/8") {
		t.Errorf("/one: %+v", e)
	}
	if e := now["/two"]; e.State != "served" || !e.Everybody {
		t.Errorf("/two: %+v", e)
	}
	d.write(one+" /one rw,clients=127.0.0.0/8", gone+" /gone rw,clients=127.0.0.0/8")
	if _, failed := command(t, "reload", "--config", d.config); failed != "" {
		t.Fatal(failed)
	}
	now = shown()
	if e := now["/one"]; !strings.HasPrefix(e.Options, "rw,") {
		t.Errorf("/one after a reload: %+v", e)
	}
	if e := now["/gone"]; e.State != "not served" || !strings.Contains(e.Fault, gone) {
		t.Errorf("/gone: %+v", e)
	}
	if _, there := now["/two"]; there {
		t.Error("/two is still there")
	}
}

// report has a section of everything, and the key of the state directory in no form.
func TestReportHasNoSecrets(t *testing.T) {
	d := start(t, "rw,insecure,no_root_squash")
	file := d.open(t, "file")
	out := d.ask(t, "report")
	for _, has := range []string{
		"nfsrdmad v0-test", "===== status", "===== configuration", d.tcp.String(), "===== exports", d.export, "===== clients", "===== calls in progress",
		"===== locks for which clients wait", "===== last lines of the log", "\tserving\t", "===== metrics", "nfsrdmad_connections{", "===== goroutines", "goroutine profile", "===== what 'nfsrdmad doctor'",
	} {
		if !strings.Contains(out, has) {
			t.Errorf("the report does not have %q", has)
		}
	}
	key, err := os.ReadFile(filepath.Join(d.state, "handle.key"))
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string][]byte{"the key": key, "a file handle": file.File, "a stateid": file.StateID.Other[:]} {
		if strings.Contains(out, string(secret)) || strings.Contains(out, hex.EncodeToString(secret)) || strings.Contains(out, base64.StdEncoding.EncodeToString(secret)) {
			t.Errorf("the report has %s", what)
		}
	}
}
