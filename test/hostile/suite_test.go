//go:build hostile

package hostile

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// program is the path of the daemon: the flag -program, or else a daemon built from this tree.
var program string

func TestMain(m *testing.M) {
	ServeStallingFS()
	ServeSeries()
	flag.StringVar(&program, "program", "", "a daemon to attack instead of the tree's")
	flag.DurationVar(&Patience, "patience", Patience, "how long an honest client waits for one thing")
	flag.Parse()
	os.Exit(run(m))
}

// everything reports whether the full matrix is requested (make test-all): each kind of peer with
// each number and kind of addresses. Without it, each kind of peer attacks once or twice.
func everything() bool { return os.Getenv("NFSRDMAD_TEST_ALL") != "" }

func run(m *testing.M) int {
	if os.Geteuid() == 0 {
		status, again, err := Nested(syscall.CLONE_NEWNET)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mounts and a network of the tests' own: %v\n", err)
			return 1
		}
		if again {
			return status
		}
		if err := Loopback(); err != nil {
			fmt.Fprintf(os.Stderr, "a network of the tests' own: %v\n", err)
			return 1
		}
	}
	// The run needs descriptors for 10,000 connections and for files.
	RaiseDescriptors(16384)
	if program == "" {
		program = filepath.Join(os.TempDir(), "nfsrdmad")
		build := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the daemon: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// stage returns a Stage with a daemon of the program under test.
func stage(t *testing.T, cfg Config) *Stage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("exports of several kinds and FUSE need root")
	}
	return NewStage(t, program, cfg)
}
