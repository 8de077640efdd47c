package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// reference is the name of one peer. The table compares the results of all peers with the results
// of this one.
const reference = "nfs-ganesha"

// add stores the result of a workload.
func (p *peer) add(w workload, m *bench.Result) {
	if p.found == nil {
		p.found = make(map[string][]*bench.Result)
	}
	p.found[w.name] = append(p.found[w.name], m)
}

// median returns the median of the values of a workload, or 0 if there are none.
func (p *peer) median(name string, value func(*bench.Result) float64) float64 {
	var all []float64
	for _, m := range p.found[name] {
		all = append(all, value(m))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// best returns the best value of a workload, or 0 if there are none. Other work on the machine
// has disturbed this measurement least.
func (p *peer) best(name string, value func(*bench.Result) float64) (best float64) {
	for _, m := range p.found[name] {
		best = max(best, value(m))
	}
	return best
}

func p99(m *bench.Result) float64 { return float64(m.Latency.P99) }

// printTable prints the medians and the best values, the ratios to the reference, and whether the
// targets are reached.
func printTable(out io.Writer, o options, up []*peer) {
	var base *peer
	for _, p := range up {
		if p.name == reference {
			base = p
		}
	}
	fmt.Fprintf(out, "%s, %s. One connection over loopback, a directory in %s, file of 64 MiB, %d rounds of %v each. Load average at the end: %s.\n",
		machine(), time.Now().Format("2006-01-02"), o.dir, o.rounds, o.duration, loadAverage())
	fmt.Fprintf(out, "\nMedians; in parentheses the ratio to %s and the 99th percentile of latency.\n\n", reference)
	rows(out, o, up, base, (*peer).median, true)
	fmt.Fprintf(out, "\nThe best round of each, which tells more where the machine had other work as well.\n\n")
	rows(out, o, up, base, (*peer).best, false)
}

// loadAverage returns the machine's load average over one minute.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// rows prints one table, with a row for each workload. The function pick chooses one value of a
// peer from its results in all rounds.
func rows(out io.Writer, o options, up []*peer, base *peer, pick func(*peer, string, func(*bench.Result) float64) float64, latency bool) {
	fmt.Fprint(out, "| workload | unit |")
	for _, p := range up {
		fmt.Fprintf(out, " %s |", p.name)
	}
	fmt.Fprintf(out, " target | reached |\n|---|---|%s---:|---|\n", strings.Repeat("---:|", len(up)))
	for _, w := range workloads {
		if !o.only.MatchString(w.name) {
			continue
		}
		fmt.Fprintf(out, "| %s | %s |", w.name, w.unit)
		of := func(p *peer) float64 {
			if base == nil {
				return 0
			}
			if b := pick(base, w.name, w.value); b > 0 {
				return pick(p, w.name, w.value) / b
			}
			return 0
		}
		for _, p := range up {
			v := pick(p, w.name, w.value)
			if w.four && p.four == "" {
				fmt.Fprint(out, " |")
				continue
			}
			switch late := time.Duration(p.median(w.name, p99)).Round(time.Microsecond); {
			case v == 0:
				fmt.Fprint(out, " failed |")
			case latency:
				fmt.Fprintf(out, " %.0f (%.2f, %v) |", v, of(p), late)
			default:
				fmt.Fprintf(out, " %.0f (%.2f) |", v, of(p))
			}
		}
		switch r := of(up[0]); {
		case w.target == 0 || r == 0:
			fmt.Fprint(out, " | |\n")
		case r >= w.target:
			fmt.Fprintf(out, " %.1f | yes |\n", w.target)
		default:
			fmt.Fprintf(out, " %.1f | no |\n", w.target)
		}
	}
}
