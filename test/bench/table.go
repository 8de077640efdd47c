package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// reference is whom the ratios are to.
const reference = "nfs-ganesha"

// add keeps a measurement.
func (p *peer) add(w workload, m *client.Measured) {
	if p.found == nil {
		p.found = make(map[string][]*client.Measured)
	}
	p.found[w.name] = append(p.found[w.name], m)
}

// median of what was found, or 0.
func (p *peer) median(name string, value func(*client.Measured) float64) float64 {
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

func p99(m *client.Measured) float64 { return float64(m.Latency.P99) }

// printTable prints the medians, the ratios to the reference and how they stand
// to the targets.
func printTable(out io.Writer, o options, up []*peer) {
	var base *peer
	for _, p := range up {
		if p.name == reference {
			base = p
		}
	}
	fmt.Fprintf(out, "%s, %s. One connection over loopback, a directory in %s, file of 64 MiB, %d rounds of %v each; medians, in parentheses the ratio to %s and the 99th percentile of latency.\n\n",
		machine(), time.Now().Format("2006-01-02"), o.dir, o.rounds, o.duration, reference)
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
			if b := base.median(w.name, w.value); b > 0 {
				return p.median(w.name, w.value) / b
			}
			return 0
		}
		for _, p := range up {
			v := p.median(w.name, w.value)
			if v == 0 {
				fmt.Fprint(out, " failed |")
				continue
			}
			late := time.Duration(p.median(w.name, p99)).Round(time.Microsecond)
			fmt.Fprintf(out, " %.0f (%.2f, %v) |", v, of(p), late)
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
