// Command worker runs inside a guest. It works on a mount in ways that shell tools cannot:
// unaligned direct I/O, shared mappings, directory listings whose names are all checked, and a
// load that records the server's acknowledgements in ledgers. Each subcommand exits with 0 only
// if all its checks passed.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/filemark"
)

var subcommands = map[string]struct {
	arguments string
	run       func(args []string) error
}{
	"append":   {"FILE WHO COUNT", func(a []string) error { return takeTurns(a[0], number(a[1]), number(a[2])) }},
	"check":    {"DIR LEDGERS", func(a []string) error { return check(a[0], a[1]) }},
	"churn":    {"DIR STOPFILE", func(a []string) error { return churn(a[0], a[1]) }},
	"direct":   {"FILE SEED", func(a []string) error { return direct(a[0], uint64(number(a[1]))) }},
	"fill":     {"KIND VOLUME DIR FILE...", func(a []string) error { return filemark.Fill(a[2], a[0], a[1], a[3:]) }},
	"files":    {"DIR COUNT", func(a []string) error { return makeFiles(a[0], number(a[1])) }},
	"follow":   {"BYTES DIR...", func(a []string) error { return followLogs(number(a[0]), a[1:]) }},
	"held":     {"ROUND SHARED MOUNT...", func(a []string) error { return held(a[0], a[1], a[2:]) }},
	"list":     {"DIR COUNT ROUNDS", func(a []string) error { return list(a[0], number(a[1]), number(a[2])) }},
	"load":     {"DIR LEDGERS WORKERS STOPFILE strict|outages", func(a []string) error { return load(a[0], a[1], number(a[2]), a[3], a[4] == "strict") }},
	"logs":     {"DIR STOPFILE", func(a []string) error { return writeLogs(a[0], a[1]) }},
	"loopback": {"BACKING DIR", func(a []string) error { return loopback(a[0], a[1]) }},
	"mmap":     {"FILE SEED", func(a []string) error { return mapped(a[0], uint64(number(a[1]))) }},
	"model": {"FILE SEED OPERATIONS PART PARTS local|remote", func(a []string) error {
		return checkModel(a[0], uint64(number(a[1])), number(a[2]), number(a[3]), number(a[4]), a[5] == "local")
	}},
	"opens": {"DIR COUNT OTHER opened|refused", func(a []string) error {
		return opens(a[0], number(a[1]), a[2], a[3] == "refused")
	}},
	"owner":  {"WITNESS DIR local|remote kept|killed", runOwner},
	"owners": {"WITNESS DIR COUNT local|remote", func(a []string) error { return owners(a[0], a[1], number(a[2]), a[3]) }},
	"range": {"FILE START LENGTH granted|refused [EVENT FILE]", func(a []string) error {
		return rangeOf(a[0], number(a[1]), number(a[2]), a[3], a[4:])
	}},
	"rate":    {"FILE lock|getattr THREADS SECONDS", func(a []string) error { return rate(a[0], a[1], number(a[2]), number(a[3])) }},
	"ranges":  {"FILE", func(a []string) error { return ranges(a[0]) }},
	"sparse":  {"DIR", func(a []string) error { return sparse(a[0]) }},
	"witness": {"ADDRESS FILE SECONDS", func(a []string) error { return witness(a[0], a[1], number(a[2])) }},
	"rounds":  {"DIR WORKERS SECONDS", func(a []string) error { return rounds(a[0], number(a[1]), number(a[2])) }},
}

func main() {
	if len(os.Args) > 1 {
		if sub, known := subcommands[os.Args[1]]; known {
			if err := sub.run(os.Args[2:]); err != nil {
				fmt.Printf("worker %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(subcommands)) {
		fmt.Fprintf(os.Stderr, "worker %s %s\n", name, subcommands[name].arguments)
	}
	os.Exit(2)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(2)
	}
	return n
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
