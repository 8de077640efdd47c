//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/debian"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// An administrator installs a package in a clean root under systemd, edits one file and starts the service. A client
// works there while the package is upgraded and while the earlier one comes back, and notices neither but as a delay. The
// commands of docs/install.md put a backup in the place of the state directory. A purge stops the service, and leaves
// nothing of it. The roots are those of Debian 12 and 13; the rpm is installed by rpm in one of Debian, so that its
// dependencies are not checked.
func TestPackagesUnderLoad(t *testing.T) {
	if !everything() {
		t.Skip("make test-all runs it: it downloads clean roots, and builds packages")
	}
	t.Parallel()
	needsDaemon(t)
	const first, second = "1.0~test1", "1.0~test2"
	for _, p := range []packager{
		{suite: debian.Suites[0], format: "deb", install: "apt-get install -y --no-install-recommends --allow-downgrades", remove: "apt-get purge -y nfsrdmad"},
		{suite: debian.Suites[1], format: "deb", install: "apt-get install -y --no-install-recommends --allow-downgrades", remove: "apt-get purge -y nfsrdmad"},
		{suite: debian.Suites[0], format: "rpm", install: "rpm -U --oldpackage --nodeps", remove: "rpm -e nfsrdmad", more: []string{"rpm"},
			// rpm keeps what the administrator has made.
			kept: []string{"/etc/nfsrdmad", "/etc/nfsrdmad/nfsrdmad.toml.rpmsave", "/var/lib/nfsrdmad"}},
	} {
		t.Run(p.suite+"/"+p.format, func(t *testing.T) {
			t.Parallel()
			tree := lab.Folder(t, "tree")
			for _, version := range []string{first, second} {
				copyTo(t, debian.Package(t, p.format, version), filepath.Join(tree, version+"."+p.format), 0o644)
			}
			n := lab.NewNetwork(t)
			u := &unit{server: &server{t: t, network: n, env: []string{"EXPORT=/work"}}, machine: lab.BootMachineIn(t, n, debian.Root(t, p.suite, p.more...), tree)}
			u.folder = u.machine.Path(unitExport)
			install := func(version string) {
				t.Helper()
				u.machine.Run("sh", "-ec", p.install+" "+filepath.Join(tree, version+"."+p.format))
				if out := u.machine.Run("nfsrdmad", "version"); !strings.Contains(out, version) {
					t.Fatalf("the program is not of version %s: %s", version, out)
				}
			}

			install(first)
			u.machine.Run("sh", "-ec", "mkdir "+unitExport+"; mount -t tmpfs -o mode=755 data "+unitExport)
			u.configure(exportOf(unitExport, "/work"))
			u.machine.Run("nfsrdmad", "serve", "--check")
			u.machine.Run("systemctl", "enable", "--now", "nfsrdmad")
			u.await("at the start")
			l := u.load("rdma/4.2", "strict")
			l.progress()
			u.machine.Run("nfsrdmad", "state", "backup", "/var/lib/nfsrdmad.before")
			install(second)
			u.await("after the upgrade")
			l.progress()
			install(first)
			u.await("after the way back")
			l.finish()

			page, err := os.ReadFile("../../docs/install.md")
			if err != nil {
				t.Fatal(err)
			}
			back := commandsOf(string(page), "Going back", "")
			if !strings.Contains(back, "nfsrdmad.before") {
				t.Fatalf("the commands to go back in docs/install.md:\n%s", back)
			}
			u.machine.Run("sh", "-ec", back)
			u.await("with the backup of the state directory")
			u.machine.Run("rm", "-r", "/var/lib/nfsrdmad.before", "/var/lib/nfsrdmad.later")

			u.machine.Run("sh", "-ec", p.remove)
			if state := u.show("ActiveState"); state != "inactive" {
				t.Errorf("the unit is %s after the package was removed", state)
			}
			left := u.machine.Run("find", "/", "/etc/systemd/system", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", tree, ")", "-prune", "-o", "-name", "*nfsrdmad*", "-print")
			if got := strings.Fields(left); !slices.Equal(got, p.kept) {
				t.Errorf("%s leaves %q", p.remove, got)
			}
			if p.kept == nil {
				if out, err := u.machine.Try("getent", "passwd", "nfsrdmad"); err == nil {
					t.Errorf("the purge leaves the user: %s", out)
				}
			}
		})
	}
}

// A packager is a program that installs packages of a format, in a root with the packages in more. After remove, the
// files in kept are still there.
type packager struct {
	suite, format, install, remove string
	more, kept                     []string
}
