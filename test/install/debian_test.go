//go:build interop

package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/debian"
)

// A root is a clean installation of Debian in a directory, as a container would have it: with systemd's programs,
// which do not run, and without network.
type root struct{ dir string }

// do runs a shell's command line in the root, with a /proc of its own, and returns what it prints.
func (r *root) do(t *testing.T, line string) (out string, status int) {
	t.Helper()
	c := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc="+filepath.Join(r.dir, "proc"), "chroot", r.dir, "sh", "-c", line)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	b, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), c.ProcessState.ExitCode()
}

// must is do for a command line that has to succeed.
func (r *root) must(t *testing.T, line string) string {
	t.Helper()
	out, status := r.do(t, line)
	if status != 0 {
		t.Fatalf("%s: status %d\n%s", line, status, out)
	}
	return out
}

// files lists the root's files, except those in which dpkg and apt keep their accounts, what lasts until the next
// start, and the copies that useradd makes of its files.
func (r *root) files(t *testing.T) []string {
	t.Helper()
	var all []string
	for f := range strings.Lines(r.must(t, `find / -xdev -path /proc -prune -o -print`)) {
		f = strings.TrimSpace(f)
		own := slices.ContainsFunc([]string{"/var/lib/dpkg", "/var/lib/apt", "/var/cache/", "/var/log/", "/run/", "/tmp/", "/package"}, func(dir string) bool { return strings.HasPrefix(f, dir) })
		if !own && !strings.HasSuffix(f, "-") && !strings.HasSuffix(f, ".pwd.lock") {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	return all
}

// The Debian package in clean roots of Debian 12 and 13: its files and its user are there, the installed program
// takes an edited configuration, an upgrade keeps the configuration and the state, a removal too, and a purge
// leaves nothing.
func TestDebianPackage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	first, second := debian.Package(t, "deb", "1.0~test1"), debian.Package(t, "deb", "1.0~test2")
	for _, suite := range debian.Suites {
		t.Run(suite, func(t *testing.T) {
			r := &root{debian.Root(t, suite)}
			before, accounts := r.files(t), r.must(t, "cat /etc/passwd /etc/group")
			for i, deb := range []string{first, second} {
				debian.Run(t, "", nil, "cp", deb, filepath.Join(r.dir, fmt.Sprintf("package%d.deb", i+1)))
			}
			const install = "apt-get install -y --no-install-recommends "
			r.must(t, install+"/package1.deb")
			r.must(t, `getent passwd nfsrdmad && test -x /usr/bin/nfsrdmad && test -f /usr/lib/systemd/system/nfsrdmad.service &&
				test -f /usr/lib/firewalld/services/nfsrdmad.xml && test -f /etc/ufw/applications.d/nfsrdmad &&
				test -f /usr/share/man/man5/nfsrdmad.toml.5.gz && test ! -e /etc/systemd/system/multi-user.target.wants/nfsrdmad.service`)
			r.must(t, "systemd-analyze --man=no verify nfsrdmad.service nfsrdmad.socket")
			if out, status := r.do(t, "nfsrdmad serve --check"); status != 2 || !strings.Contains(out, "nothing to serve") {
				t.Errorf("without an export: status %d\n%s", status, out)
			}
			r.must(t, `mkdir /srv/data && printf '[[export]]\npath = "/srv/data"\nname = "/data"\n' >>/etc/nfsrdmad/nfsrdmad.toml`)
			r.must(t, "install -d -o nfsrdmad -g nfsrdmad -m 700 /var/lib/nfsrdmad && echo kept >/var/lib/nfsrdmad/state")
			if out := r.must(t, "nfsrdmad serve --check"); !strings.Contains(out, "export /data") || !strings.Contains(out, "built without RDMA devices") {
				t.Errorf("the edited file is not what is checked:\n%s", out)
			}
			edited := r.must(t, "cat /etc/nfsrdmad/nfsrdmad.toml /var/lib/nfsrdmad/state")

			r.must(t, install+"/package2.deb")
			if out := r.must(t, `dpkg-query -f '${Version}' -W nfsrdmad`); out != "1.0~test2-1" {
				t.Errorf("after the upgrade %s is installed", out)
			}
			if r.must(t, "cat /etc/nfsrdmad/nfsrdmad.toml /var/lib/nfsrdmad/state") != edited {
				t.Error("the upgrade changed the configuration or the state")
			}
			r.must(t, "apt-get remove -y nfsrdmad")
			if r.must(t, "cat /etc/nfsrdmad/nfsrdmad.toml /var/lib/nfsrdmad/state") != edited {
				t.Error("the removal changed the configuration or the state")
			}
			r.must(t, "apt-get purge -y nfsrdmad && rmdir /srv/data")
			for _, f := range r.files(t) {
				if _, had := slices.BinarySearch(before, f); !had {
					t.Errorf("the purge leaves %s", f)
				}
			}
			if now := r.must(t, "cat /etc/passwd /etc/group"); now != accounts {
				t.Errorf("the purge leaves the accounts\n%s\nwhich were\n%s", now, accounts)
			}
		})
	}
}
