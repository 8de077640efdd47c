package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// contents returns the names, sizes and times of all files below a directory.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&all, path, info.Size(), info.ModTime(), info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// serve --check says what a daemon would serve, whether one runs with the same configuration or not. It
// leaves the state directory and the daemon that runs as they are.
func TestServeCheck(t *testing.T) {
	d := start(t, "insecure")
	before := contents(t, d.state)
	args := []string{"serve", "--check", "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", d.rdma.String()}
	check := func(status int, want []string, more ...string) {
		t.Helper()
		p := nfsrdmad(t, append(append([]string(nil), args...), more...)...)
		if got := p.Wait(); got != status {
			t.Errorf("exit status %d, want %d:\n%s", got, status, p.Output())
		}
		for _, s := range want {
			if !strings.Contains(p.Output(), s) {
				t.Errorf("it does not say %q:\n%s", s, p.Output())
			}
		}
	}
	export := t.TempDir()
	serves := []string{"export /a", export + ", to every client, with rw,sync,root_squash,secure,sec=sys", "every machine that reaches this server can change its files"}
	check(0, append(serves, fmt.Sprintf("in use by the nfsrdmad that runs with this state directory (process %d)", d.PID())), "--export", export+":/a")
	check(0, []string{"to 192.0.2.0/24 2001:db8::/32"}, "--export", export+":/a,clients=192.0.2.0/24,2001:db8::/32")
	check(1, []string{"--export", "/none is not there", "mkdir -p"}, "--export", export+":/a,ro", "--export", "/none")
	check(1, []string{"/proc/sys lies on proc"}, "--export", "/proc/sys")
	check(1, []string{"Kerberos keytab", "an export accepts Kerberos"}, "--config", writeFile(t, "k.toml", "[kerberos]\nkeytab = \"/none\"\n[[export]]\npath = \""+export+"\"\noptions = \"sec=krb5\"\n"))
	check(2, []string{":1: ", ":3: ", "did you mean"}, "--config", writeFile(t, "f.toml", "log_levl = \"info\"\n[memory]\nceiling = \"1\"\n"))
	check(2, []string{"nothing to serve"}, "--config", writeFile(t, "e.toml", "strict = true\n"))
	if after := contents(t, d.state); after != before {
		t.Errorf("the state directory was\n%s\nand is\n%s", before, after)
	}
	d.Signal(syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("the daemon ended with status %d:\n%s", status, d.Output())
	}
	check(0, append(serves, "free"), "--export", export+":/a")
}

// The daemon says which file its state directory has lost, and what that means to clients. A new
// directory, and one that is whole, have lost none.
func TestStateThatWasLost(t *testing.T) {
	export, state := t.TempDir(), t.TempDir()
	run := func(lost string) {
		t.Helper()
		d := startOn(t, export, state, "insecure")
		d.Signal(syscall.SIGTERM)
		d.Wait()
		const line = "the state directory has lost a file"
		if n := strings.Count(d.Output(), line); n != min(len(lost), 1) || !strings.Contains(d.Output(), lost) {
			t.Errorf("without %q:\n%s", lost, d.Output())
		}
	}
	run("")
	run("")
	for _, name := range []string{"handle.key", "clients.db", "exports.json"} {
		if err := os.Remove(filepath.Join(state, name)); err != nil {
			t.Fatal(err)
		}
		run(name)
		run("")
	}
	// A version that made no list left this directory.
	for _, name := range []string{"handle.key", "files"} {
		if err := os.Remove(filepath.Join(state, name)); err != nil {
			t.Fatal(err)
		}
	}
	run("handle.key")
}

// The line that says what is served has the options of each export, and a warning names those that every
// machine can change. Neither has an export that is not served, because its directory is missing.
func TestServingShowsOptions(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	d := startReloading(t, t.TempDir()+" /open rw", t.TempDir()+" /closed clients=192.0.2.0/24", t.TempDir()+" /still ro", missing+" /missing rw")
	d.Signal(syscall.SIGTERM)
	d.Wait()
	for _, s := range []string{"/closed rw,sync,no_root_squash,insecure,sec=sys,clients=192.0.2.0/24", "/still ro,sync,no_root_squash", `"exports": ["/open"]`} {
		if !strings.Contains(d.Output(), s) {
			t.Errorf("no %s in\n%s", s, d.Output())
		}
	}
	if strings.Contains(d.Output(), "/missing rw") {
		t.Errorf("the options of an export that is not served:\n%s", d.Output())
	}
}
