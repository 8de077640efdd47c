//go:build hostile

package restarts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/hostile"
)

var (
	lives = flag.Int("restarts", 5, "how often the daemon is killed")
	seed  = flag.Uint64("seed", 1, "draws what happens")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Geteuid() == 0 {
		status, again, err := hostile.Nested(0)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mounts of the tests' own: %v\n", err)
			return 1
		}
		if again {
			return status
		}
	}
	return m.Run()
}

// When the daemon is killed between two writes of its records and starts again, clients can
// reclaim the locks that they hold, and no other client gets these locks.
func TestRestarts(t *testing.T) {
	needsRoot(t)
	w := newWorld(t, daemon(t), *seed)
	for i := range *lives {
		w.live(1 + i)
		if t.Failed() {
			t.Fatalf("go test -tags hostile ./test/restarts -seed %d -restarts %d", *seed, 1+i)
		}
	}
	t.Logf("%d lives, %d killed before they served, %d within the grace period; %d claims given back, %d too late, %d locks refused to others; %d other clients came",
		*lives, w.killedEarly, w.killedInGrace, w.given, w.lost, w.refused, w.crowded.Load())
}

// daemon builds the daemon and returns its path.
func daemon(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the daemon: %v\n%s", err, out)
	}
	return program
}

func needsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
}
