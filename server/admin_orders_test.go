package server_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

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
	d.write(one+" /one ro", two+" /one rw")
	for _, where := range [][]string{{"--socket", adminSocketOf(d)}, {"--config", d.config}} {
		if _, failed := command(t, append([]string{"reload"}, where...)...); !strings.Contains(failed, "reload failed: the old configuration stays in force") {
			t.Errorf("reload of a wrong configuration, %q: %q", where, failed)
		}
	}
	if out, failed := command(t, "status", "--config", d.config); failed != "" || !strings.Contains(out, "serving") {
		t.Errorf("status with a wrong configuration: %q, %q", out, failed)
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

// A release of a lock of NFSv3, which opens nothing, finds the file by a symbolic link, and says that the host is not told.
func TestReleaseOfALockOfNFSv3(t *testing.T) {
	d := start(t, "insecure")
	ctx := testContext(t)
	c, name, file := d.lockable(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	args := nlm.LockArgs4{Exclusive: true, Lock: nlm.Lock4{CallerName: []byte("a"), FileHandle: nlm.Object(file), SVID: 1}}
	if stat, err := callNLM(ctx, c, nlm.ProcLock, &args); err != nil || stat != nlm.Granted {
		t.Fatal(stat, err)
	}
	taken := asked[admin.Taken](t, d, "release", "--file", link)
	if taken.Opens != 1 || len(taken.Clients) != 1 || len(taken.Untold) != 1 || taken.Untold[0] != taken.Clients[0] {
		t.Errorf("release: %+v", taken)
	}
	if locks := asked[[]admin.Lock](t, d, "locks"); len(locks) != 0 {
		t.Errorf("locks afterwards: %+v", locks)
	}
}
