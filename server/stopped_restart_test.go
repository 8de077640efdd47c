package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

const (
	stillStopped = "an export stays stopped, as the administrator ordered before the restart"
	leftOutLine  = "an export is left out"
)

// restart ends the daemon with a signal, and starts it again with the same configuration file.
func (d *reloading) restart(s syscall.Signal) {
	d.t.Helper()
	d.Signal(s)
	d.Wait()
	d.Process = nfsrdmad(d.t, "serve", "--config", d.config)
	d.AwaitLine("serving")
}

// stateDir returns the state directory.
func (d *reloading) stateDir() string { return filepath.Dir(adminSocketOf(d)) }

// order gives an order about an export, and returns what the command says if it fails.
func (d *reloading) order(what, name string) (failed string) {
	d.t.Helper()
	_, failed = command(d.t, "exports", what, name, "--socket", adminSocketOf(d))
	return failed
}

// ordered gives an order about an export, which has to succeed.
func (d *reloading) ordered(what, name string) {
	d.t.Helper()
	if failed := d.order(what, name); failed != "" {
		d.t.Fatalf("exports %s %s: %s", what, name, failed)
	}
}

// listed returns an export as `nfsrdmad exports` lists it.
func (d *reloading) listed(name string) admin.Export {
	d.t.Helper()
	for _, e := range asked[[]admin.Export](d.t, &daemon{state: d.stateDir()}, "exports") {
		if e.Name == name {
			return e
		}
	}
	d.t.Fatalf("%s is not listed", name)
	return admin.Export{}
}

// isStopped checks that an export is shown as stopped or as served, and that clients can mount it only if it is served.
func (d *reloading) isStopped(when, name string, stopped bool) {
	d.t.Helper()
	want := "served"
	if stopped {
		want = "stopped"
	}
	if got := d.listed(name).State; got != want {
		d.t.Errorf("%s: exports says that %s is %q, want %q", when, name, got, want)
	}
	status := asked[admin.Status](d.t, &daemon{state: d.stateDir()}, "status")
	if says := strings.Contains(status.Condition, name+" (stopped"); says != stopped {
		d.t.Errorf("%s: the status is %q", when, status.Condition)
	}
	c := d.dialBoth(d.t)["tcp"]
	if _, err := c.Mount(testContext(d.t), name); (err == nil) == stopped {
		d.t.Errorf("%s: a mount of %s: %v", when, name, err)
	}
}

// A stopped export stays stopped when the daemon ends in order or is killed, and starts again: also after a reload, while
// its directory is missing, and when its directory is there again. The log says how to start it. After the start, handles
// of before are good, and the next restart serves the export.
func TestStopOutlastsARestart(t *testing.T) {
	base := t.TempDir()
	disk, away := filepath.Join(base, "disk"), filepath.Join(base, "away")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	exports := []string{disk + " /disk rw", t.TempDir() + " /other rw"}
	d := startReloading(t, exports...)
	ctx := testContext(t)
	root, err := d.dialBoth(t)["tcp"].Mount(ctx, "/disk")
	if err != nil {
		t.Fatal(err)
	}
	d.ordered("stop", "/disk")
	if err := os.Rename(disk, away); err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d.restart(s)
		line := d.AwaitLine(stillStopped)
		if !strings.Contains(line, "nfsrdmad exports start /disk") || !strings.Contains(line, disk) {
			t.Errorf("the log says %q", line)
		}
		d.isStopped("after a restart", "/disk", true)
		d.isStopped("after a restart", "/other", false)
		d.reload("configuration read again", exports...)
		d.isStopped("after a reload", "/disk", true)
		if out := d.Output(); strings.Contains(out, leftOutLine) {
			t.Errorf("the directory was looked for:\n%s", out)
		}
		if _, err := d.dialBoth(t)["rdma"].GetAttr(ctx, root); !stale(err) {
			t.Errorf("a handle of before: %v", err)
		}
	}
	if err := os.Rename(away, disk); err != nil {
		t.Fatal(err)
	}
	d.restart(syscall.SIGTERM)
	d.isStopped("although the directory is there", "/disk", true)
	d.ordered("start", "/disk")
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d.isStopped("after the start", "/disk", false)
		if _, err := d.dialBoth(t)["tcp"].GetAttr(ctx, root); err != nil {
			t.Errorf("a handle of before: %v", err)
		}
		d.restart(s)
		if out := d.Output(); strings.Contains(out, stillStopped) || strings.Contains(out, "lost a file") {
			t.Errorf("after the start of the export and of the daemon:\n%s", out)
		}
	}
	d.isStopped("at the end", "/disk", false)
}

// A daemon whose exports are all stopped starts, also with the key strict, and serves one when it is started.
func TestADaemonStartsWithAllExportsStopped(t *testing.T) {
	disk := t.TempDir()
	d := startReloading(t, disk+" /disk rw")
	d.head += "strict = true\n"
	d.write(disk + " /disk rw")
	d.ordered("stop", "/disk")
	d.restart(syscall.SIGTERM)
	d.isStopped("after a restart", "/disk", true)
	d.ordered("start", "/disk")
	d.isStopped("after the start", "/disk", false)
}

// A start still fails if no export can be served that is not stopped.
func TestAStoppedExportHidesNoFault(t *testing.T) {
	disk, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	d := startReloading(t, disk+" /disk rw", other+" /other rw")
	d.ordered("stop", "/disk")
	d.Signal(syscall.SIGTERM)
	d.Wait()
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	p := nfsrdmad(t, "serve", "--config", d.config)
	if status := p.Wait(); status == 0 || !strings.Contains(p.Output(), other+" is not there") {
		t.Errorf("status %d:\n%s", status, p.Output())
	}
}

// A stop is forgotten when the configuration does not have the export any more, at a reload or at a start, and not when a
// start or a reload fails.
func TestAStopIsForgottenWithItsExport(t *testing.T) {
	disk, other := t.TempDir()+" /disk rw", t.TempDir()+" /other rw"
	missing := filepath.Join(t.TempDir(), "missing") + " /missing rw"
	d := startReloading(t, disk, other)
	d.ordered("stop", "/disk")
	d.reload("reload failed", other, other)
	d.Signal(syscall.SIGTERM)
	d.Wait()
	d.write(missing)
	if p := nfsrdmad(t, "serve", "--config", d.config); p.Wait() == 0 {
		t.Fatal("a daemon serves a directory that is missing")
	}
	d.write(disk, other)
	d.Process = nfsrdmad(t, "serve", "--config", d.config)
	d.AwaitLine("serving")
	d.isStopped("after a reload and a start that failed", "/disk", true)

	d.reload("configuration read again", other)
	d.write(disk, other)
	d.restart(syscall.SIGTERM)
	d.isStopped("after a reload without it", "/disk", false)

	d.ordered("stop", "/disk")
	d.write(other)
	d.restart(syscall.SIGTERM)
	d.reload("configuration read again", disk, other)
	d.isStopped("after a start without it", "/disk", false)
	d.restart(syscall.SIGTERM)
	d.isStopped("after one more restart", "/disk", false)
}

// The daemon does not start with a record of stopped exports that it cannot read: it would serve an export that was
// stopped. It names the file and what to do, as `state check`, `doctor` and `serve --check` do. Without the file it starts,
// and says that the file is lost and what that means.
func TestDamagedRecordOfStops(t *testing.T) {
	exports := []string{t.TempDir() + " /disk rw", t.TempDir() + " /other rw"}
	d := startReloading(t, exports...)
	d.ordered("stop", "/disk")
	file := filepath.Join(d.stateDir(), "stopped.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	for _, c := range []struct{ content, says, remedy string }{
		{"", "damaged", "restore it from a backup"},
		{string(whole[:len(whole)-3]), "damaged", "restore it from a backup"},
		{"{}", "damaged", "restore it from a backup"},
		{`{"version": 1}`, "damaged", "restore it from a backup"},
		{`{"version": 1, "exports": {"/disk": true}}`, "damaged", "restore it from a backup"},
		{`{"version": 1, "exports": [""]}`, "damaged", "restore it from a backup"},
		{`{"version": 2, "exports": {"/disk": true}}`, "later version", "install that version again"},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, nfsrdmad(t, "serve", "--config", d.config), 1, file, c.says, c.remedy, "remove")
		for _, args := range [][]string{{"state", "check", d.stateDir()}, {"doctor", "--config", d.config}, {"serve", "--check", "--config", d.config}} {
			p := nfsrdmad(t, args...)
			if status := p.Wait(); status == 0 || !strings.Contains(p.Output(), "stopped.json") || !strings.Contains(p.Output(), c.says) || !strings.Contains(p.Output(), c.remedy) {
				t.Errorf("%q with %q: status %d:\n%s", args, c.content, status, p.Output())
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if out, failed := command(t, "state", "check", d.stateDir()); !strings.Contains(out, "stopped.json: it is missing") || failed == "" {
		t.Errorf("state check without the file: %s%s", out, failed)
	}
	d.Process = nfsrdmad(t, "serve", "--config", d.config)
	d.AwaitLine("serving")
	if out := d.Output(); !strings.Contains(out, "the state directory has lost a file") || !strings.Contains(out, file) || !strings.Contains(out, "served again") {
		t.Errorf("without the file:\n%s", out)
	}
	d.isStopped("without the file", "/disk", false)
}

// While the disk of the state directory is full, a stop ends the serving of the export, and its file system can be
// unmounted. The command fails, and says that a restart may serve the export; so do the list of exports and the log. When
// there is room, the repeated command records the stop. A start on a full disk serves the export, and says that a restart
// may stop it.
func TestStopOnAFullDisk(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	base := t.TempDir()
	state, _ := mountPoint(t, base, "state")
	disk, _ := mountPoint(t, base, "disk")
	if err := unix.Mount("state", state, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(state, unix.MNT_DETACH) })
	mount(t, "disk", disk, "tmpfs", 0)
	exports := []string{disk + " /disk rw", t.TempDir() + " /other rw"}
	d := startReloading(t, exports...)
	d.head = strings.Replace(d.head, d.stateDir(), state, 1)
	d.write(exports...)
	d.restart(syscall.SIGTERM)
	filler := filepath.Join(state, "filler")
	fill := func() {
		t.Helper()
		if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	free := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	for range 2 {
		if failed := d.order("stop", "/disk"); !strings.Contains(failed, "/disk is stopped") || !strings.Contains(failed, "the next start of the daemon may serve it") ||
			!strings.Contains(failed, "no space left") || !strings.Contains(failed, "repeat the command") {
			t.Errorf("a stop on a full disk says %q", failed)
		}
	}
	if err := unix.Unmount(disk, 0); err != nil {
		t.Errorf("umount: %v", err)
	}
	d.isStopped("on a full disk", "/disk", true)
	if e := d.listed("/disk"); !strings.Contains(e.Fault, "no space left") {
		t.Errorf("exports says %q", e.Fault)
	}
	if n := strings.Count(d.Output(), "cannot record which exports the administrator has stopped"); n != 1 {
		t.Errorf("the log says %d times that the stop cannot be recorded", n)
	}
	free()
	d.ordered("stop", "/disk")
	if e := d.listed("/disk"); e.Fault != "" {
		t.Errorf("exports says %q when the stop is recorded", e.Fault)
	}
	d.restart(syscall.SIGKILL)
	d.isStopped("after a restart", "/disk", true)

	fill()
	if failed := d.order("start", "/disk"); !strings.Contains(failed, "/disk is served") || !strings.Contains(failed, "the next start of the daemon may stop it again") {
		t.Errorf("a start on a full disk says %q", failed)
	}
	d.isStopped("started on a full disk", "/disk", false)
	free()
	d.restart(syscall.SIGKILL)
	d.isStopped("after a start that was not recorded, and a restart", "/disk", true)
	fill()
	d.order("start", "/disk")
	free()
	d.ordered("start", "/disk")
	d.restart(syscall.SIGKILL)
	d.isStopped("after a start that was recorded at its repetition", "/disk", false)
}

// The commands about the state directory show stopped exports, and a backup has them. `serve --check` does not look for
// the directory of a stopped export.
func TestStoppedExportsAreInTheBackup(t *testing.T) {
	base := t.TempDir()
	disk := filepath.Join(base, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	d := startReloading(t, disk+" /disk rw", t.TempDir()+" /other rw")
	d.ordered("stop", "/disk")
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(base, "backup")
	if _, failed := command(t, "state", "backup", backup, "--socket", adminSocketOf(d)); failed != "" {
		t.Fatal(failed)
	}
	for _, dir := range []string{d.stateDir(), backup} {
		if out, _ := command(t, "state", "show", dir); !strings.Contains(out, "exports stopped") || !strings.Contains(out, "1 /disk") {
			t.Errorf("state show: %s", out)
		}
		if out, failed := command(t, "state", "check", dir); failed != "" {
			t.Errorf("state check: %s%s", out, failed)
		}
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	p := nfsrdmad(t, "serve", "--check", "--config", d.config)
	if status := p.Wait(); status != 0 || !strings.Contains(p.Output(), "exports start /disk") {
		t.Errorf("serve --check: status %d:\n%s", status, p.Output())
	}
	d.Process = nfsrdmad(t, "serve", "--config", d.config, "--state-dir", backup)
	d.AwaitLine("serving")
	if !strings.Contains(d.AwaitLine(stillStopped), "/disk") {
		t.Error("the export is not stopped in the backup")
	}
}

// A start does not compare a stopped export with the others: without its file system, its path lies in another export, which
// is more open. The export is not started before its file system is mounted.
func TestStoppedExportWithoutItsFileSystem(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	outer := t.TempDir()
	inner, _ := mountPoint(t, outer, "inner")
	mount(t, "inner", inner, "tmpfs", 0)
	d := startReloading(t, outer+" /outer rw", inner+" /inner rw,clients=127.0.0.0/8")
	d.ordered("stop", "/inner")
	if err := unix.Unmount(inner, 0); err != nil {
		t.Fatal(err)
	}
	d.restart(syscall.SIGTERM)
	d.isStopped("after a restart", "/inner", true)
	d.isStopped("after a restart", "/outer", false)
	if failed := d.order("start", "/inner"); !strings.Contains(failed, "lies in "+outer) {
		t.Errorf("a start without the file system says %q", failed)
	}
	mount(t, "inner", inner, "tmpfs", 0)
	d.ordered("start", "/inner")
	d.isStopped("after the start", "/inner", false)
}
