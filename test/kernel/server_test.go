//go:build kernel || bench

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// transports are the transports of each test.
var transports = []string{"rdma", "tcp"}

// over runs a test over NFSv3 for each transport, in parallel. With the full matrix it also runs
// the test over each version of NFSv4. The test gets the argument HOW of mount_over in the
// scripts.
func over(t *testing.T, test func(t *testing.T, transport string)) {
	t.Parallel()
	hows := transports
	if everything() && os.Getenv("NFSRDMAD_LAB_SERVER") == "" {
		for _, version := range versions {
			for _, transport := range transports {
				hows = append(hows[:len(hows):len(hows)], transport+"/"+version)
			}
		}
	}
	for _, how := range hows {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			test(t, how)
		})
	}
}

// versions are the versions of NFSv4.
var versions = []string{"4.0", "4.1", "4.2"}

// overVersions runs a test for each version of NFSv4, alternating between the transports. With
// the full matrix it runs each version over each transport. The test gets the argument HOW of
// mount_over in the scripts.
func overVersions(t *testing.T, test func(t *testing.T, how string)) {
	t.Parallel()
	for i, version := range versions {
		for k, transport := range transports {
			if !everything() && (i+k)%2 == 0 {
				continue
			}
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				test(t, transport+"/"+version)
			})
		}
	}
}

// everything reports whether the full matrix is requested (make test-all): each kind of work over
// each transport, on each kernel.
func everything() bool { return os.Getenv("NFSRDMAD_TEST_ALL") != "" }

// overRDMA is over for tests whose result depends little on the transport. Without the full
// matrix it runs over RDMA only.
func overRDMA(t *testing.T, test func(t *testing.T, transport string)) {
	if everything() {
		over(t, test)
		return
	}
	t.Parallel()
	t.Run("rdma", func(t *testing.T) { test(t, "rdma") })
}

// A server is the server that the guests of a test mount: the daemon on this machine, or, if
// NFSRDMAD_LAB_SERVER is knfsd, Linux's own server in a guest.
type server struct {
	t       testing.TB
	network *lab.Network
	daemon  *lab.Daemon // nil if the server is Linux's own
	folder  string      // the daemon's exported directory, on this machine
	env     []string    // variables for mount_over in prelude.sh
}

// serve starts a server with one export and these options of it, on a network of its own.
func serve(t testing.TB, options string, flags ...string) *server {
	t.Helper()
	switch peer := os.Getenv("NFSRDMAD_LAB_SERVER"); peer {
	case "":
	case "knfsd":
		return serveKnfsd(t, lab.NewNetwork(t))
	default:
		t.Fatalf("NFSRDMAD_LAB_SERVER is knfsd or empty, not %q", peer)
	}
	base := t.TempDir()
	folder := filepath.Join(base, "export")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return serveFolder(t, base, folder, options, flags...)
}

// serveFolder starts the daemon with one export, on a network of its own. The daemon's state is in
// the folder base.
func serveFolder(t testing.TB, base, folder, options string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, network: lab.NewNetwork(t), folder: folder, env: []string{"EXPORT=/work"}}
	// Guests use the folder as other users too, so they must be able to enter it. t.TempDir
	// permits only its owner.
	for _, folder := range []string{base, folder} {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.daemon = lab.StartDaemon(t, s.network, daemon(t), filepath.Join(base, "state"), s.folder+":/work,rw,no_root_squash,"+options, flags...)
	return s
}

// daemon builds nfsrdmad from this tree and returns its path. If NFSRDMAD_LAB_RACE is set, it
// builds with the race detector.
func daemon(t testing.TB, flags ...string) string {
	t.Helper()
	if os.Getenv("NFSRDMAD_LAB_RACE") != "" {
		flags = append(flags, "-race")
	}
	return build(t, "cmd/nfsrdmad", flags...)
}

// peerAddress is the last byte of the address of a server that runs in a guest.
const peerAddress = 3

// jumbo is the MTU, in bytes, that rxe needs for InfiniBand's largest packets.
const jumbo = 9000

func serveKnfsd(t testing.TB, n *lab.Network) *server {
	t.Helper()
	image := disk(t, 4<<30)
	g := lab.Boot(t, n, lab.Options{Address: peerAddress, Memory: 2000, Limit: time.Hour, Writable: []string{filepath.Dir(image)}},
		script(t, "serve_knfsd"), image)
	g.Await("serving")
	return &server{t: t, network: n, env: []string{"EXPORT=/srv/disk", "MOUNT_PORT=20048", "SERVER=" + g.Address()}}
}

// disk creates a sparse ext4 image of that size in bytes, in memory.
func disk(t testing.TB, size int64) string {
	t.Helper()
	image := filepath.Join(lab.Folder(t, "disk"), "image")
	makeDisk(t, image, size)
	return image
}

func makeDisk(t testing.TB, image string, size int64) {
	t.Helper()
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
}

// needsDaemon skips a test that starts and ends the daemon's process, if the server is not the
// daemon.
func needsDaemon(t testing.TB) {
	t.Helper()
	if os.Getenv("NFSRDMAD_LAB_SERVER") != "" {
		t.Skip("this test starts and ends the daemon's process")
	}
}

// boot starts a client guest that runs the script of that name.
func (s *server) boot(options lab.Options, name string, args ...string) *lab.Guest {
	s.t.Helper()
	options.Env = append(append([]string{"WORKER=" + build(s.t, "test/kernel/worker")}, s.env...), options.Env...)
	return lab.Boot(s.t, s.network, options, script(s.t, name), args...)
}

// runAll runs several scripts, one after the other, in one guest.
func (s *server) runAll(options lab.Options, names []string, args ...string) {
	s.t.Helper()
	s.t.Log(lastLine(s.bootAll(options, names, args...).Succeed()))
}

// bootAll starts the guest of runAll.
func (s *server) bootAll(options lab.Options, names []string, args ...string) *lab.Guest {
	s.t.Helper()
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "step %q\n(\n%s\n) || fail %q\n", name, script(s.t, name), name)
	}
	options.Env = append(append([]string{"WORKER=" + build(s.t, "test/kernel/worker")}, s.env...), options.Env...)
	return lab.Boot(s.t, s.network, options, all.String(), args...)
}

// run boots a client guest and fails the test unless its script succeeds.
func (s *server) run(options lab.Options, name string, args ...string) {
	s.t.Helper()
	s.t.Log(lastLine(s.boot(options, name, args...).Succeed()))
}

// lastLine returns the last line of text. Scripts print a summary as their last line.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
