//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A modelCell is one combination in which a file is compared with a model.
type modelCell struct {
	kernel lab.Kernel
	how    string // of mount_over in the scripts
	files  string // the file system that is exported
}

// modelCells returns the combinations: some, or with the full matrix all.
func modelCells() (cells []modelCell) {
	if !everything() {
		return []modelCell{{lab.Usual(), "rdma/4.2", "xfs"}, {lab.Usual(), "tcp/4.2", "ext4"}, {lab.Usual(), "rdma/3", "tmpfs"}}
	}
	for _, kernel := range []lab.Kernel{lab.UserMode, lab.UserMode7_2} {
		for _, version := range append([]string{"3"}, versions...) {
			for _, transport := range transports {
				for _, files := range []string{"ext4", "xfs", "btrfs", "tmpfs"} {
					cells = append(cells, modelCell{kernel, transport + "/" + version, files})
				}
			}
		}
	}
	return cells
}

// fromEnvironment returns the number in an environment variable, or usual.
func fromEnvironment(t testing.TB, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A modelRun says how a cell is tested: with which seeds, and with how many operations for each.
type modelRun struct{ seed, seeds, operations int }

// modelRunOf returns how the cell with this number is tested. Each cell has other seeds.
// NFSRDMAD_MODEL_SEED, NFSRDMAD_MODEL_SEEDS and NFSRDMAD_MODEL_OPERATIONS set the first seed of every cell
// and the other numbers, to repeat a failure or to test more.
func modelRunOf(t testing.TB, cell int) modelRun {
	r := modelRun{seeds: fromEnvironment(t, "NFSRDMAD_MODEL_SEEDS", 1), operations: fromEnvironment(t, "NFSRDMAD_MODEL_OPERATIONS", 2500)}
	r.seed = fromEnvironment(t, "NFSRDMAD_MODEL_SEED", 1+cell*r.seeds)
	return r
}

// limit returns the longest duration of the guests, on a busy machine.
func (r modelRun) limit() time.Duration {
	return max(5*time.Minute, time.Duration(r.seeds*r.operations/1000+1)*time.Minute)
}

// tellRepetition prints how the test is run again, if it fails.
func (r modelRun) tellRepetition(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("To run this again: NFSRDMAD_TEST_ALL=1 NFSRDMAD_MODEL_SEED=%d NFSRDMAD_MODEL_SEEDS=%d NFSRDMAD_MODEL_OPERATIONS=%d go test -tags kernel -v -run '^%s$' ./test/kernel",
				r.seed, r.seeds, r.operations, strings.ReplaceAll(t.Name(), "/", "$/^"))
		}
	})
}

// TestOneFileAgainstAModel reads, writes, appends, truncates, allocates, punches, zeroes, clones,
// copies, seeks in and maps one file in random order, with and without O_DIRECT, and compares each byte, each
// hole and each size with a model.
func TestOneFileAgainstAModel(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	for i, cell := range modelCells() {
		t.Run(fmt.Sprintf("%s/%s/%s", cell.kernel, cell.how, cell.files), func(t *testing.T) {
			t.Parallel()
			r := modelRunOf(t, i)
			r.tellRepetition(t)
			serveOn(t, cell.files, "sync").run(lab.Options{Kernel: cell.kernel, Limit: r.limit()}, "model", cell.how,
				fmt.Sprint(r.seed), fmt.Sprint(r.seeds), fmt.Sprint(r.operations), "0", "1")
		})
	}
}

// TestOneFileOfThreePrograms works on one file by two clients and by a program on the server's
// machine at the same time, each on a part of the file of its own.
func TestOneFileOfThreePrograms(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	cells := modelCells()
	if !everything() {
		cells = cells[:1]
	}
	for i, cell := range cells {
		t.Run(fmt.Sprintf("%s/%s/%s", cell.kernel, cell.how, cell.files), func(t *testing.T) {
			t.Parallel()
			r := modelRunOf(t, i)
			r.tellRepetition(t)
			s := serveOn(t, cell.files, "sync")
			file := filepath.Join(s.folder, "model")
			if err := os.WriteFile(file, make([]byte, 1<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			operations := fmt.Sprint(r.seeds * r.operations)
			work := func(part int) *lab.Guest {
				return s.boot(lab.Options{Kernel: cell.kernel, Limit: r.limit()}, "model", cell.how,
					fmt.Sprint(r.seed+part), "1", operations, fmt.Sprint(part), "3")
			}
			one, two := work(0), work(1)
			out, err := exec.Command(build(t, "test/kernel/worker"), "model", file, fmt.Sprint(r.seed+2), operations, "2", "3", "local").CombinedOutput()
			if err != nil {
				t.Errorf("the program on the server's machine: %v\n%s", err, out)
			}
			one.Succeed()
			two.Succeed()
		})
	}
}

// serveOn is serve with an export on a file system of its own: ext4, xfs, btrfs or tmpfs.
func serveOn(t testing.TB, files, options string, flags ...string) *server {
	t.Helper()
	base := t.TempDir()
	folder := filepath.Join(base, "export")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	must := func(command string, args ...string) {
		t.Helper()
		if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", command, args, err, out)
		}
	}
	if files == "tmpfs" {
		must("mount", "-t", "tmpfs", "-o", "size=256M", "tmpfs", folder)
	} else {
		image := filepath.Join(lab.Folder(t, "disk"), "image")
		if err := os.WriteFile(image, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, 512<<20); err != nil {
			t.Fatal(err)
		}
		must("mkfs."+files, "-q", image)
		must("mount", "-o", "loop", image, folder)
	}
	t.Cleanup(func() { must("umount", folder) })
	return serveFolder(t, base, folder, options, flags...)
}
