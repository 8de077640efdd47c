//go:build soak

package soak

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/hostile"
)

var (
	long    = flag.Duration("for", 3*time.Minute, "how long the daemon runs")
	seed    = flag.Uint64("seed", 1, "draws what happens")
	program = flag.String("program", "", "a daemon built by Build instead of the tree's")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Geteuid() == 0 {
		status, again, err := hostile.Nested(unix.CLONE_NEWNET)
		if err == nil && !again {
			err = Machine()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "a machine of the run's own: %v\n", err)
			return 1
		}
		if again {
			return status
		}
	}
	hostile.RaiseDescriptors(16384)
	return m.Run()
}

func TestSoak(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts, loop devices and namespaces need root")
	}
	if *program == "" {
		*program = filepath.Join(t.TempDir(), "nfsrdmad")
		if err := Build("../..", *program); err != nil {
			t.Fatal(err)
		}
	}
	Run(t, *program, *long, *seed)
}
