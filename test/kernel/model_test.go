//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		return []modelCell{{lab.Usual(), "rdma/4.2", "xfs"}, {lab.Usual(), "tcp/4.2", "ext4"}, {lab.Usual(), "rdma", "tmpfs"}}
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

// modelRuns returns the first seed, the number of seeds and the number of operations of each.
// NFSRDMAD_MODEL_SEED, NFSRDMAD_MODEL_SEEDS and NFSRDMAD_MODEL_OPERATIONS set others, to repeat a failure.
func modelRuns(t testing.TB) (first, seeds, operations int) {
	seeds, operations = 1, 2500
	if everything() {
		seeds, operations = 10, 5000
	}
	return fromEnvironment(t, "NFSRDMAD_MODEL_SEED", 1), fromEnvironment(t, "NFSRDMAD_MODEL_SEEDS", seeds),
		fromEnvironment(t, "NFSRDMAD_MODEL_OPERATIONS", operations)
}

// TestOneFileAgainstAModel reads, writes, appends, truncates, allocates, punches, zeroes, clones,
// copies, seeks in and maps one file in random order, with and without O_DIRECT, and compares each byte, each
// hole and each size with a model.
func TestOneFileAgainstAModel(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	first, seeds, operations := modelRuns(t)
	for i, cell := range modelCells() {
		t.Run(fmt.Sprintf("%s/%s/%s", cell.kernel, cell.how, cell.files), func(t *testing.T) {
			t.Parallel()
			s := serveOn(t, cell.files, "sync")
			limit := time.Duration(seeds*operations/1000+1) * 20 * time.Second
			s.run(lab.Options{Kernel: cell.kernel, Limit: max(limit, 3*time.Minute)}, "model", cell.how,
				fmt.Sprint(first+i*seeds), fmt.Sprint(seeds), fmt.Sprint(operations), "0", "1")
		})
	}
}

// TestOneFileOfThreePrograms works on one file by two clients and by a program on the server's
// machine at the same time, each on a part of the file of its own.
func TestOneFileOfThreePrograms(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	first, seeds, operations := modelRuns(t)
	cells := modelCells()
	if !everything() {
		cells = cells[:1]
	}
	for i, cell := range cells {
		t.Run(fmt.Sprintf("%s/%s/%s", cell.kernel, cell.how, cell.files), func(t *testing.T) {
			t.Parallel()
			s := serveOn(t, cell.files, "sync")
			file := filepath.Join(s.folder, "model")
			if err := os.WriteFile(file, make([]byte, 1<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			seed := first + i*seeds
			work := func(part int) *lab.Guest {
				limit := time.Duration(seeds*operations/1000+1) * 30 * time.Second
				return s.boot(lab.Options{Kernel: cell.kernel, Limit: max(limit, 3*time.Minute)}, "model", cell.how,
					fmt.Sprint(seed+part), "1", fmt.Sprint(seeds*operations), fmt.Sprint(part), "3")
			}
			one, two := work(0), work(1)
			out, err := exec.Command(build(t, "test/kernel/worker"), "model", file, fmt.Sprint(seed+2), fmt.Sprint(seeds*operations), "2", "3", "local").CombinedOutput()
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
