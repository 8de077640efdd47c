package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	run := flag.String("run", "", "only mutants whose description matches this regular expression")
	list := flag.Bool("list", false, "list the mutants and run none")
	limit := flag.Duration("timeout", 2*time.Minute, "how long the tests of one mutant may take: longer than any wait in a test")
	jobs := flag.Int("jobs", max(1, runtime.GOMAXPROCS(0)/2), "how many mutants run at a time")
	root := flag.String("root", ".", "the work tree")
	flag.Parse()
	wanted, err := regexp.Compile(*run)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutants: -run takes a regular expression, and there are no arguments:", err, flag.Args())
		os.Exit(2)
	}
	var chosen []mutant
	for _, m := range all() {
		if wanted.MatchString(m.String()) {
			chosen = append(chosen, m)
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Println(m)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if !report(ctx, os.Stdout, newRunner(*root, *limit), chosen, *jobs) {
		os.Exit(1)
	}
}

// report runs mutants, `jobs` of them at a time, and prints their outcomes. It reports whether all
// of them were killed.
func report(ctx context.Context, w io.Writer, r *runner, mutants []mutant, jobs int) bool {
	type result struct {
		mutant
		outcome
		said string
		took time.Duration
	}
	results := make(chan result)
	go func() {
		defer close(results)
		var all errgroup.Group
		all.SetLimit(jobs)
		for _, m := range mutants {
			all.Go(func() error {
				if ctx.Err() == nil {
					begin := time.Now()
					o, said := r.run(ctx, m)
					results <- result{m, o, said, time.Since(begin)}
				}
				return nil
			})
		}
		_ = all.Wait()
	}()
	var count [broken + 1]int
	done, alive := 0, []result{}
	for res := range results {
		done++
		count[res.outcome]++
		fmt.Fprintf(w, "%-9v %5.1fs  %v\n", res.outcome, res.took.Seconds(), res.mutant)
		if res.said != "" {
			fmt.Fprintf(w, "%18s%s\n", "", res.said)
		}
		if !res.dead() {
			alive = append(alive, res)
		}
	}
	fmt.Fprintf(w, "%d of %d mutants: %d killed, %d panicked, %d timed out, %d survived, %d broken\n",
		done, len(mutants), count[killed], count[panicked], count[timedOut], count[survived], count[broken])
	for _, a := range alive {
		fmt.Fprintf(w, "%-9v %v\n", a.outcome, a.mutant)
	}
	return len(alive) == 0 && done == len(mutants)
}
