//go:build kernel

package kernel

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// TestSparseFiles makes files of random layouts (written, preallocated, holes), drops them from the server's cache, and
// reads them on the client in blocks of 4 KiB to 1 MiB. Over NFSv4.2 and TCP Linux's client uses READ_PLUS,
// and keeps no room for a reply that tells more than it has to. NFSRDMAD_SPARSE_FILES is the number of files.
func TestSparseFiles(t *testing.T) {
	needsDaemon(t)
	t.Parallel()
	hows, disks, files := []string{"tcp/4.2"}, []string{"ext4"}, 40
	if everything() {
		hows, disks, files = append(hows, "tcp/4.1", "rdma/4.2", "rdma"), append(disks, "xfs", "btrfs"), 1000
	}
	files = fromEnvironment(t, "NFSRDMAD_SPARSE_FILES", files)
	for _, kernel := range newest() {
		for _, disk := range disks {
			for _, how := range hows {
				t.Run(fmt.Sprintf("%s/%s/%s", kernel, how, disk), func(t *testing.T) {
					t.Parallel()
					s := serveOn(t, disk, "sync")
					if err := makeSparse(s.folder, files); err != nil {
						t.Fatal(err)
					}
					s.run(lab.Options{Kernel: kernel, Limit: max(5*time.Minute, time.Duration(files)*4*time.Second)}, "sparse", how)
				})
			}
		}
	}
}

// newest returns the usual kernel, and the newest one if it is set up. make test does not set that
// one up, because it takes long to compile.
func newest() []lab.Kernel {
	if lab.Usual() != lab.UserMode7_2 && lab.UserMode7_2.Ready() {
		return []lab.Kernel{lab.Usual(), lab.UserMode7_2}
	}
	return []lab.Kernel{lab.Usual()}
}

// makeSparse makes files of random layouts in dir, and a file "sums" with their block sizes and checksums. Their
// content is on the disk, and not in memory.
func makeSparse(dir string, files int) error {
	dice := rand.New(rand.NewPCG(38, 1))
	var sums strings.Builder
	for i := range files {
		name := fmt.Sprintf("file-%04d", i)
		layout := randomLayout(dice)
		block := 4096 << dice.IntN(9)
		if i%2 == 1 {
			block = 4096 + dice.IntN(1<<20-4096)
		}
		if i == 0 { // preallocated behind the data, and a hole behind that
			layout, block = preallocated, 96<<10
		}
		content, err := makeLaidOut(filepath.Join(dir, name), layout)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&sums, "%s %d %x\n", name, block, sha256.Sum256(content))
	}
	return os.WriteFile(filepath.Join(dir, "sums"), []byte(sums.String()), 0o644)
}

// A step is a change to a range of a file.
type step struct {
	how            string // write, allocate or punch
	offset, length int
}

// A layout is the size of a file, and the changes that are made to it in turn.
type layout struct {
	size  int
	steps []step
}

var preallocated = layout{1 << 20, []step{{"allocate", 0, 700 << 10}, {"write", 0, 64 << 10}}}

func randomLayout(dice *rand.Rand) layout {
	l := layout{size: 1 + dice.IntN(2<<20)}
	for range dice.IntN(12) {
		at := dice.IntN(l.size)
		n := 1 + dice.IntN(min(l.size-at, []int{100, 10_000, 300_000}[dice.IntN(3)]))
		l.steps = append(l.steps, step{[]string{"write", "write", "allocate", "punch"}[dice.IntN(4)], at, n})
	}
	return l
}

// makeLaidOut makes a file and returns its content.
func makeLaidOut(path string, l layout) ([]byte, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := make([]byte, l.size)
	if err := f.Truncate(int64(l.size)); err != nil {
		return nil, err
	}
	for i, s := range l.steps {
		part := content[s.offset : s.offset+s.length]
		switch s.how {
		case "write":
			for k := range part {
				part[k] = byte(i + k%251 + 1)
			}
			_, err = f.WriteAt(part, int64(s.offset))
		case "allocate":
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, int64(s.offset), int64(s.length))
		case "punch":
			clear(part)
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, int64(s.offset), int64(s.length))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return content, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
