//go:build hostile

package disk

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/hostile"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

var (
	tree      = flag.String("tree", "../..", "the tree whose daemon is judged")
	rounds    = flag.Int("faults", 10, "how many faults there are")
	sweeping  = flag.Duration("sweeping", 4*time.Millisecond, "how often the daemon's sweeper looks: a minute of idleness is 60 times as long")
	onlyFS    = flag.String("fs", "", "the one file system")
	onlyFault = flag.String("fault", "", "the one kind of fault")
	first     = flag.Uint64("seed", 1, "the seed of the first; the others follow")
	judged    = flag.String("server", "nfsrdmad", "what is judged: nfsrdmad, or knfsd in a guest of the kernel lab, on ext4")
)

var program string

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
	if *judged == "knfsd" {
		return m.Run()
	}
	program = filepath.Join(os.TempDir(), "nfsrdmad")
	if err := Build(*tree, program, *sweeping); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// After each fault, every change that the server answered with success is on the disk, unless a
// changed write verifier or an error told the client that the change may be lost.
func TestDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("disks of one's own need root")
	}
	d := NewDevice(t)
	formatted := make(map[*filesystem]*platter)
	figures := make(figures)
	filesystems, faults, start := filesystems, faults, starter(nil)
	switch *judged {
	case "nfsrdmad":
		start = func(t testing.TB, _ *filesystem, m *mounted, _ *Device, state string) server {
			return startDaemon(t, program, m.dir, state)
		}
	case "knfsd":
		network := lab.NewNetwork(t)
		filesystems = filesystems[:1] // the guest's kernel has only ext4
		faults = slices.DeleteFunc(slices.Clone(faults), func(f *fault) bool { return f.here })
		start = func(t testing.TB, f *filesystem, m *mounted, d *Device, _ string) server {
			return startKnfsd(t, network, f, m, d)
		}
	default:
		t.Fatalf("-server is nfsrdmad or knfsd, not %q", *judged)
	}
	for seed := *first; seed < *first+uint64(*rounds); seed++ {
		f := filesystems[(seed+seed/uint64(len(faults)))%uint64(len(filesystems))]
		kind := faults[seed%uint64(len(faults))]
		if i := slices.IndexFunc(filesystems, func(f *filesystem) bool { return f.name == *onlyFS }); i >= 0 {
			f = filesystems[i]
		}
		if i := slices.IndexFunc(faults, func(f *fault) bool { return f.name == *onlyFault }); i >= 0 {
			kind = faults[i]
		}
		if kind.name == "full" && !f.fills {
			f = filesystems[0]
		}
		name := fmt.Sprintf("%s, %s, seed %d", f.name, kind.name, seed)
		t.Run(name, func(t *testing.T) {
			if formatted[f] == nil {
				formatted[f] = f.format(t, d)
			}
			out := play(t, d, f, formatted[f], start, kind, seed)
			t.Logf("%d calls answered, %d errors told, %d verifiers changed, %d requests of the kernel failed", out.Answered, out.Told, out.Verifiers, out.Failed)
			if out.Unmountable != "" {
				t.Logf("the file system did not survive: %s", out.Unmountable)
			}
			if n := len(out.Wrong); n > 0 {
				t.Errorf("go test -tags hostile ./test/disk -run TestDisk -faults 1 -seed %d\n%d wrong:\n%s", seed, n, strings.Join(out.Wrong[:min(n, 12)], "\n"))
			}
			figures.add(f.name+", "+kind.name, out)
		})
	}
	for _, what := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%s: %v", what, figures[what])
	}
}

// figures are sums over the rounds of one kind.
type figures map[string]*figure

type figure struct{ rounds, wrong, unmountable, answered, told, verifiers, failed int }

func (f figures) add(what string, out outcome) {
	if f[what] == nil {
		f[what] = new(figure)
	}
	sum := f[what]
	sum.rounds++
	if len(out.Wrong) > 0 {
		sum.wrong++
	}
	if out.Unmountable != "" {
		sum.unmountable++
	}
	sum.answered += out.Answered
	sum.told += out.Told
	sum.verifiers += out.Verifiers
	sum.failed += out.Failed
}

func (f *figure) String() string {
	return fmt.Sprintf("%d faults, %d judged wrong, %d file systems did not survive; %d calls answered, %d errors told, %d changed verifiers told, %d requests of the kernel failed",
		f.rounds, f.wrong, f.unmountable, f.answered, f.told, f.verifiers, f.failed)
}
