//go:build kernel || bench

package kernel

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

//go:embed scripts/*.sh
var scripts embed.FS

// script returns the text of scripts/NAME.sh.
func script(t testing.TB, name string) string {
	t.Helper()
	text, err := scripts.ReadFile("scripts/" + name + ".sh")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// programs is the folder for the programs that the tests build.
var programs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "nfsrdmad-lab-programs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	status := m.Run()
	if left := lab.Leftovers(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "the tests left behind: %q\n", left)
		status = max(status, 1)
	}
	return status
}

var builds sync.Map // key: command and flags; value: func() error, which builds the program once for all tests

// build compiles a command of this module with these build flags and returns the program's path.
func build(t testing.TB, command string, flags ...string) string {
	t.Helper()
	key := fmt.Sprint(command, flags)
	program := filepath.Join(programs, filepath.Base(command)+fmt.Sprintf("-%x", key))
	once, _ := builds.LoadOrStore(key, sync.OnceValue(func() error {
		args := append([]string{"build", "-o", program}, flags...)
		cmd := exec.Command("go", append(args, "github.com/nfsrdmad/nfsrdmad/"+command)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", command, err, out)
		}
		return nil
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return program
}

// buildTest compiles the tests of a package of this module for RDMA devices, and returns the program's path.
func buildTest(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "test")
	c := exec.Command("go", "test", "-c", "-tags", "verbs,netgo,osusergo", "-o", program, "github.com/nfsrdmad/nfsrdmad/"+folder)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
