// Command figures measures the data path of this project, with client and server on one machine,
// as ratios to bare Go programs in the same run: a TCP stream, and a loop that echoes records. It
// prints a table of medians for docs/benchmarks.md.
//
// Each round measures every figure once, so that a machine whose speed changes affects all
// figures alike. The ratios are computed within each round. After the table, the program prints
// the memory that idle connections take in a server.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A figure is one measurement. run does n units of work.
type figure struct {
	name string
	size int    // bytes of a unit
	base string // name of the figure that it is compared with
	goal float64
	run  func(n int) error
}

func main() {
	rounds := flag.Int("rounds", 7, "rounds to take the medians of")
	length := flag.Duration("time", 400*time.Millisecond, "time for each figure in each round")
	only := flag.String("only", "", "measure only figures whose name contains this, and their bases")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	scaled := flag.Bool("scale", false, "measure what a call costs a server over many connections and processors, instead")
	procs := flag.String("procs", "1,2", "with -scale: values of GOMAXPROCS for the server")
	most := flag.Int("conns", 1000, "with -scale: the most connections")
	waits := flag.String("waits", "", "with -scale: write the server's mutex and block profiles to files with this prefix, at the cost of the figures")
	flag.Parse()
	if flag.Arg(0) == scaleServer {
		if err := serveScale(os.Stdin, os.Stdout, flag.Arg(1)); err != nil {
			fmt.Fprintln(os.Stderr, "figures:", err)
			os.Exit(1)
		}
		return
	}
	if *scaled {
		if err := scale(*rounds, *length, *only, *procs, *most, *waits); err != nil {
			fmt.Fprintln(os.Stderr, "figures:", err)
			os.Exit(1)
		}
		return
	}
	if flag.Arg(0) == idleServer {
		if err := serveIdle(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "figures:", err)
			os.Exit(1)
		}
		return
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "figures:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(*rounds, *length, *only); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(rounds int, length time.Duration, only string) error {
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	figures, err := s.figures()
	if err != nil {
		return err
	}
	if only != "" {
		figures = choose(figures, only)
	}
	rates, costs := make(map[string][]float64), make(map[string][]float64)
	for round := range rounds + 1 {
		for _, f := range figures {
			rate, cost, err := measure(f, length)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if round > 0 { // the first round only warms up
				rates[f.name] = append(rates[f.name], rate)
				costs[f.name] = append(costs[f.name], cost)
			}
		}
	}
	print(figures, rates, costs)
	if only != "" && !strings.Contains(idleTitle, only) {
		return nil
	}
	return idleConnections()
}

// choose returns the figures whose names contain the text `only`, and the figures that those are
// compared with.
func choose(all []figure, only string) (out []figure) {
	for _, f := range all {
		wanted := strings.Contains(f.name, only)
		for _, g := range all {
			wanted = wanted || g.base == f.name && strings.Contains(g.name, only)
		}
		if wanted {
			out = append(out, f)
		}
	}
	return out
}

// measure runs f for about the given length of time. It returns the units a second, and the
// processor time, in seconds, that both ends together use for each unit.
func measure(f figure, length time.Duration) (rate, cost float64, err error) {
	used := processorTime()
	done, spent, err := repeat(f.run, 1, length)
	return float64(done) / spent.Seconds(), (processorTime() - used).Seconds() / float64(max(done, 1)), err
}

// repeat runs n units of work, then twice as many each time, but at most 65,536, until the time
// `length` has passed. It returns the number of units and the time that they took.
func repeat(run func(n int) error, n int, length time.Duration) (done int, spent time.Duration, err error) {
	for start := time.Now(); spent < length; n = min(n*2, 1<<16) {
		if err := run(n); err != nil {
			return 0, length, err
		}
		done += n
		spent = time.Since(start)
	}
	return done, spent, nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func print(figures []figure, rates, costs map[string][]float64) {
	fmt.Printf("%s, %d processors, %s\n\n", cpuModel(), runtime.NumCPU(), runtime.Version())
	fmt.Println("| figure | median | processor time for each | of | ratio | least to most | by processor time | goal |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, f := range figures {
		m := median(rates[f.name])
		shown := fmt.Sprintf("%.0f /s", m)
		if f.size > 0 {
			shown = fmt.Sprintf("%.0f MB/s", m*float64(f.size)/1e6)
		}
		cost := fmt.Sprintf("%.3g us, %.1f processors", median(costs[f.name])*1e6, median(costs[f.name])*m)
		row := []string{f.name, shown, cost, "", "", "", "", ""}
		if base := rates[f.base]; f.base != "" && len(base) > 0 {
			baseSize := 1
			for _, b := range figures {
				if b.name == f.base && b.size > 0 {
					baseSize = b.size
				}
			}
			var ratios []float64
			for i, r := range rates[f.name] {
				ratios = append(ratios, r*float64(max(f.size, 1))/(base[i]*float64(baseSize)))
			}
			row[3], row[4] = f.base, fmt.Sprintf("%.2f", median(ratios))
			row[5] = fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios))
			// The ratio of the work of this figure to the work of its base in the same processor
			// time. It varies less with the machine's other load.
			share := float64(max(f.size, 1)) / median(costs[f.name]) / (float64(baseSize) / median(costs[f.base]))
			row[6] = fmt.Sprintf("%.2f", share)
			if f.goal > 0 {
				row[7] = fmt.Sprintf("%.2f", f.goal)
			}
		}
		fmt.Println("| " + strings.Join(row, " | ") + " |")
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}
