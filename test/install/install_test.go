package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// make install puts the program where the unit starts it, and keeps a configuration that exists. The
// configuration that it installs is right, apart from the exports that the user has to write. The links of the guide lead
// to installed files, or to web pages.
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
	pages, err := filepath.Glob(filepath.Join(dir, "usr/share/doc/nfsrdmad/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages of the guide: %v", err)
	}
	for _, page := range pages {
		text := read("usr/share/doc/nfsrdmad/" + filepath.Base(page))
		for _, link := range regexp.MustCompile(`\]\(([^)#\s]+)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil && !strings.Contains(link[1], "://") {
				t.Errorf("%s has a link that leads nowhere: %s", filepath.Base(page), link[1])
			}
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
