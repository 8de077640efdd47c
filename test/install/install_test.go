package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make install puts the program where the unit starts it, and keeps a configuration that exists. The
// configuration that it installs is right, apart from the exports that the user has to write.
func TestMakeInstall(t *testing.T) {
	for _, tool := range []string{"make", "install"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	install := func() {
		t.Helper()
		c := exec.Command("make", "-C", "../..", "install", "DESTDIR="+dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	install()
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	unit := read("usr/lib/systemd/system/nfsrdmad.service")
	if !strings.Contains(unit, "ExecStart=/usr/bin/nfsrdmad serve --config /etc/nfsrdmad/nfsrdmad.toml\n") {
		t.Error("the unit starts another program, or with another configuration")
	}
	read("usr/lib/systemd/system/nfsrdmad.socket")
	if users := read("usr/lib/sysusers.d/nfsrdmad.conf"); !strings.Contains(users, "nfsrdmad") {
		t.Errorf("no user of the unit in %q", users)
	}
	for _, completion := range []string{"usr/share/bash-completion/completions/nfsrdmad", "usr/share/zsh/site-functions/_nfsrdmad", "usr/share/fish/vendor_completions.d/nfsrdmad.fish"} {
		if !strings.Contains(read(completion), "nfsrdmad") {
			t.Errorf("%s completes another program", completion)
		}
	}
	for _, file := range []string{"man/man8/nfsrdmad.8.gz", "man/man8/nfsrdmad-serve.8.gz", "man/man5/nfsrdmad.toml.5.gz", "man/man1/nfsrdmad-probe.1.gz", "doc/nfsrdmad/install.md", "doc/nfsrdmad/prometheus-rules.yml", "doc/nfsrdmad/grafana-dashboard.json"} {
		read("usr/share/" + file)
	}
	for page, link := range map[string]string{"install.md": "](CHANGELOG.md)", "metrics.md": "](prometheus-rules.yml)"} {
		if !strings.Contains(read("usr/share/doc/nfsrdmad/"+page), link) {
			t.Errorf("%s lacks the link %q", page, link)
		}
	}
	read("usr/lib/firewalld/services/nfsrdmad.xml")
	config := filepath.Join(dir, "etc/nfsrdmad/nfsrdmad.toml")
	program := filepath.Join(dir, "usr/bin/nfsrdmad")
	check := exec.Command(program, "serve", "--check", "--config", config, "--state-dir", filepath.Join(dir, "state"), "--tcp", "127.0.0.1:0", "--rdma", "none")
	if out, err := check.CombinedOutput(); check.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "nothing to serve") {
		t.Errorf("%v\n%s", err, out)
	}
	const own = "[[export]]\npath = \"/\"\n"
	if err := os.WriteFile(config, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	install()
	if read("etc/nfsrdmad/nfsrdmad.toml") != own {
		t.Error("the user's configuration was replaced")
	}
}
