// Command bench compares the daemon over TCP with other NFS servers, with `nfsrdmad bench` as the
// client. It prints two Markdown tables with ratios to nfs-ganesha, one with the medians of all
// rounds, and one with the best rounds:
//
//	go run ./test/bench [-rounds N] [-duration D] [-dir DIR] [-only REGEXP] [-nfsrdmad FILE]
//
// The servers run on the loopback device of a network namespace that the program creates, so the
// program needs root. They serve the same directory, by default one in memory. In each round the
// program runs every workload on every server, one after the other, so that other load on the
// machine affects all servers alike. The program leaves out servers that are not installed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// A workload is one row of the table.
type workload struct {
	name string
	args []string
	// four is true if the workload uses NFSv4.1, which not every server in the comparison has.
	four bool
	// value returns the measured value, in the unit that the field unit names.
	value func(m *bench.Result) float64
	unit  string
	// target is the smallest ratio to nfs-ganesha that the project wants; 0 if none.
	target float64
}

func rate(m *bench.Result) float64      { return m.OperationsPerSecond }
func bandwidth(m *bench.Result) float64 { return m.BytesPerSecond / 1e6 }

// entries returns the value of a workload that lists directories. Bytes a second would not be
// comparable, because the size of an entry depends on the server's file handles.
func entries(m *bench.Result) float64 { return m.EntriesPerSecond }

var workloads = []workload{
	{"NULL, one at a time", []string{"null", "--depth", "1"}, false, rate, "op/s", 1.7},
	{"NULL, 16 at a time", []string{"null", "--depth", "16"}, false, rate, "op/s", 0},
	{"GETATTR, one at a time", []string{"getattr", "--depth", "1"}, false, rate, "op/s", 0},
	{"GETATTR, 16 at a time", []string{"getattr", "--depth", "16"}, false, rate, "op/s", 4},
	{"READ 4 KiB, 16 at a time", []string{"randread", "--size", "4K", "--depth", "16"}, false, rate, "op/s", 2.5},
	{"READ 1 MiB, one at a time", []string{"read", "--size", "1M", "--depth", "1"}, false, bandwidth, "MB/s", 0},
	{"READ 1 MiB, 16 at a time", []string{"read", "--size", "1M", "--depth", "16"}, false, bandwidth, "MB/s", 1},
	{"WRITE 4 KiB, 16 at a time", []string{"randwrite", "--size", "4K", "--depth", "16"}, false, rate, "op/s", 0},
	// If -dir is on a disk, this includes the time of the disk.
	{"WRITE 4 KiB FILE_SYNC, one at a time", []string{"syncwrite", "--size", "4K", "--depth", "1"}, false, rate, "op/s", 1},
	{"WRITE 1 MiB, one at a time", []string{"write", "--size", "1M", "--depth", "1"}, false, bandwidth, "MB/s", 0},
	{"WRITE 1 MiB, 16 at a time", []string{"write", "--size", "1M", "--depth", "16"}, false, bandwidth, "MB/s", 1},
	{"CREATE and REMOVE, one at a time", []string{"create", "--depth", "1"}, false, rate, "pairs/s", 0},
	{"CREATE and REMOVE, 16 at a time", []string{"create", "--depth", "16"}, false, rate, "pairs/s", 0},
	{"READDIRPLUS of 64 KiB, 4 at a time", []string{"readdirplus", "--size", "64K", "--depth", "4"}, false, entries, "entries/s", 0},
	{"4.1: SEQUENCE, 16 at a time", []string{"null", "--depth", "16"}, true, rate, "op/s", 0},
	{"4.1: GETATTR, one at a time", []string{"getattr", "--depth", "1"}, true, rate, "op/s", 0},
	{"4.1: GETATTR, 16 at a time", []string{"getattr", "--depth", "16"}, true, rate, "op/s", 0},
	{"4.1: READ 4 KiB, GETATTR, 16 at a time", []string{"randread", "--size", "4K", "--depth", "16"}, true, rate, "op/s", 0},
	{"4.1: READ 1 MiB, GETATTR, 16 at a time", []string{"read", "--size", "1M", "--depth", "16"}, true, bandwidth, "MB/s", 0},
	{"4.1: WRITE 1 MiB, GETATTR, 16 at a time", []string{"write", "--size", "1M", "--depth", "16"}, true, bandwidth, "MB/s", 0},
	{"4.1: OPEN and CLOSE, one at a time", []string{"open", "--depth", "1"}, true, rate, "pairs/s", 1},
	{"4.1: OPEN and CLOSE, 16 at a time", []string{"open", "--depth", "16"}, true, rate, "pairs/s", 1},
	{"4.1: OPEN to create, CLOSE and REMOVE, 16 at a time", []string{"create", "--depth", "16"}, true, rate, "rounds/s", 0},
	{"4.1: READDIR of 64 KiB, 4 at a time", []string{"readdir", "--size", "64K", "--depth", "4"}, true, entries, "entries/s", 0},
}

type options struct {
	rounds   int
	duration time.Duration
	dir      string
	only     *regexp.Regexp
	nfsrdmad string
}

func main() {
	var o options
	var only string
	flag.IntVar(&o.rounds, "rounds", 5, "how often each server is measured")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "how long each measurement takes")
	flag.StringVar(&o.dir, "dir", "/dev/shm", "where the served directory is made")
	flag.StringVar(&only, "only", "", "a regular expression that workloads' names match")
	flag.StringVar(&o.nfsrdmad, "nfsrdmad", "bin/nfsrdmad", "the program to measure, and to measure with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.nfsrdmad, err = filepath.Abs(o.nfsrdmad); err != nil {
		return err
	}
	s, err := newStage(o)
	if err != nil {
		return err
	}
	defer s.close()
	var up []*peer
	for _, p := range peers {
		if why := p.start(s, p); why != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", p.name, why)
			continue
		}
		up = append(up, p)
	}
	for round := range o.rounds {
		for _, w := range workloads {
			if !o.only.MatchString(w.name) {
				continue
			}
			for i := range up {
				// Each round begins with another server, so that none is always measured first.
				p := up[(i+round)%len(up)]
				if w.four && p.four == "" {
					continue
				}
				m, err := s.measure(ctx, p, w)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					fmt.Fprintf(os.Stderr, "round %d, %s, %s: %v\n", round+1, w.name, p.name, err)
					continue
				}
				p.add(w, m)
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %.0f %s\n", round+1, w.name, p.name, w.value(m), w.unit)
			}
		}
	}
	printTable(os.Stdout, o, up)
	return nil
}

// measure runs one workload on one server and returns its result.
func (s *stage) measure(ctx context.Context, p *peer, w workload) (*bench.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.duration+2*time.Minute)
	defer cancel()
	export, version := p.export, "3"
	if w.four {
		export, version = p.four, "4.1"
	}
	args := append([]string{
		"bench", "127.0.0.1:" + export, "--nfs", version, "--json", "--port", fmt.Sprint(p.port), "--mount-port", fmt.Sprint(p.mountPort),
		"--file-size", "64M", "--duration", s.o.duration.String(), "--workload",
	}, w.args...)
	c := s.command(ctx, s.o.nfsrdmad, args...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	m := new(bench.Result)
	return m, json.Unmarshal(out, m)
}

// machine returns a description of the machine: its processors, its kernel and the version of Go.
func machine() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, found := strings.CutPrefix(line, "model name"); found {
				model = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
				break
			}
		}
	}
	kernel, _ := exec.Command("uname", "-sr").Output()
	return fmt.Sprintf("%d processors (%s), %s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)), runtime.Version())
}
