package server_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// daemonUser is the user that daemons without root run as.
const daemonUser = 65533

// unitCapabilities are the capabilities that systemd gives to the daemon.
var unitCapabilities = []string{"dac_read_search", "dac_override", "fowner", "chown", "setuid", "setgid", "mknod"}

// A kind is a way to run a daemon. run is the command that starts it, and self the user ID that
// the daemon sees as its own. switches is true if the daemon can act as other users.
type kind struct {
	name     string
	run      []string
	owner    int // user ID of the owner of its files, as seen outside of a user namespace
	self     string
	switches bool
}

var kinds = []kind{
	{"root", nil, 0, "0", true},
	{"capabilities without root", []string{
		"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups",
		"--inh-caps", "+" + strings.Join(unitCapabilities, ",+"), "--ambient-caps", "+" + strings.Join(unitCapabilities, ",+"),
	}, daemonUser, "65533", true},
	{"a user namespace with one id", []string{"unshare", "--user", "--map-root-user"}, 0, "0", false},
	{"unprivileged", []string{"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", "--inh-caps", "-all"}, daemonUser, "65533", false},
}

func needSetpriv(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("becoming other users takes root")
	}
	for _, tool := range []string{"setpriv", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// directory makes a directory that belongs to a user. It also lets other users pass through the
// directory above it.
func directory(t *testing.T, owner int, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, owner, owner), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startAs(t *testing.T, run []string, args ...string) *servertest.Process {
	t.Helper()
	argv := append(append(append([]string{}, run...), binary(t), "serve"), args...)
	return servertest.StartProcess(t, exec.Command(argv[0], argv[1:]...))
}

// A daemon that can act as its callers does so, whichever user it runs as itself. A file belongs
// to the user who makes it, and the kernel refuses access to files of other users.
func TestDaemonsThatActAsTheCaller(t *testing.T) {
	needSetpriv(t)
	const alice, bob = 1001, 1002
	for _, k := range append([]kind{
		{"as systemd runs it", asUnit(t), daemonUser, "65533", true},
		{"root in a container", []string{"setpriv", "--bounding-set", "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+setgid,+setuid"}, 0, "0", true},
	}, kinds...) {
		if !k.switches {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			dir := directory(t, alice, 0o755)
			ip := ownLoopback()
			tcp, rdma := servertest.FreePort(t, ip), servertest.FreePort(t, ip)
			p := startAs(t, k.run, "--state-dir", directory(t, k.owner, 0o700), "--tcp", tcp.String(), "--rdma", rdma.String(),
				"--export", dir+":/squashed,insecure", "--export", dir+":/trusting,insecure,no_root_squash",
				"--export", dir+":/as-alice,insecure,all_squash,anonuid=1001,anongid=1001")
			p.AwaitLine("serving")
			ctx := testContext(t)
			c, err := servertest.DialRDMA(ctx, rdma)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, try := range []struct {
				export string
				uid    uint32
				status wire.NFSStat3
				owner  uint32
			}{
				{"/squashed", alice, wire.NFS3OK, alice},
				{"/squashed", bob, wire.NFS3ErrAccess, 0},
				{"/squashed", 0, wire.NFS3ErrAccess, 0},
				{"/trusting", 0, wire.NFS3OK, 0},
				{"/trusting", bob, wire.NFS3ErrAccess, 0},
				{"/as-alice", bob, wire.NFS3OK, alice},
				{"/as-alice", 0, wire.NFS3OK, alice},
			} {
				c.Cred = servertest.As(try.uid, try.uid)
				root, err := c.Mount(ctx, try.export)
				if err != nil {
					t.Fatal(err)
				}
				got := wire.NFS3OK
				_, err = c.Create(ctx, root, "file", 0o600)
				var status *servertest.StatusError
				if errors.As(err, &status) {
					got = status.Status
				} else if err != nil {
					t.Fatal(err)
				}
				if got != try.status {
					t.Errorf("%s: CREATE as %d: %v, want %v", try.export, try.uid, got, try.status)
				}
				if err == nil {
					info, err := os.Stat(filepath.Join(dir, "file"))
					if err != nil {
						t.Fatal(err)
					}
					if st := info.Sys().(*syscall.Stat_t); st.Uid != try.owner || st.Gid != try.owner {
						t.Errorf("%s: made as %d, it belongs to %d:%d", try.export, try.uid, st.Uid, st.Gid)
					}
					os.Remove(filepath.Join(dir, "file"))
				}
			}
			p.Signal(syscall.SIGTERM)
			if status := p.Wait(); status != 0 {
				t.Errorf("exit status %d:\n%s", status, p.Output())
			}
		})
	}
}

// A daemon that cannot act as other users logs that. It serves exports that map every caller to
// its own user, and refuses to start with any other export.
func TestDaemonsThatAreOnlyThemselves(t *testing.T) {
	needSetpriv(t)
	for _, k := range kinds {
		if k.switches {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			dir, state := directory(t, k.owner, 0o755), directory(t, k.owner, 0o700)
			squashed := "all_squash,anonuid=" + k.self + ",anongid=" + k.self
			ip := ownLoopback()
			tcp := servertest.FreePort(t, ip)
			args := func(options string) []string {
				return []string{"--state-dir", state, "--tcp", tcp.String(), "--rdma", "none", "--export", dir + ":/,insecure," + options}
			}
			for _, options := range []string{"", "no_root_squash", "all_squash", "root_squash,anonuid=" + k.self + ",anongid=" + k.self} {
				p := startAs(t, k.run, args(options)...)
				if status := p.Wait(); status != 1 || !strings.Contains(p.Output(), squashed) || strings.Contains(p.Output(), "\n") {
					t.Errorf("options %q: exit status %d:\n%s", options, status, p.Output())
				}
			}
			var h servertest.Handle
			for round := range 2 { // handles outlive a restart without capabilities, too
				p := startAs(t, k.run, args(squashed)...)
				p.AwaitLine("has no right to act as another user")
				ctx := testContext(t)
				c, err := servertest.DialTCP(ctx, tcp)
				if err != nil {
					t.Fatal(err)
				}
				c.Cred = servertest.As(4711, 4711)
				root, err := c.Mount(ctx, "/")
				if err != nil {
					t.Fatal(err)
				}
				if round == 0 {
					if h, err = c.Create(ctx, root, "file", 0o600); err != nil {
						t.Fatal(err)
					}
				}
				works(t, ctx, c, h, 4096)
				info, err := os.Stat(filepath.Join(dir, "file"))
				if err != nil {
					t.Fatal(err)
				}
				if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != k.owner || int(st.Gid) != k.owner {
					t.Errorf("it belongs to %d:%d", st.Uid, st.Gid)
				}
				c.Close()
				p.Signal(syscall.SIGTERM)
				if status := p.Wait(); status != 0 {
					t.Errorf("exit status %d:\n%s", status, p.Output())
				}
			}
		})
	}
}
