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
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	run := flag.String("run", "", "only mutants whose description matches this regular expression")
	list := flag.Bool("list", false, "list the mutants and run none")
	limit := flag.Duration("timeout", 2*time.Minute, "how long the tests of one mutant may take: longer than any wait in a test")
	jobs := flag.Int("jobs", max(1, runtime.GOMAXPROCS(0)/2), "how many mutants run at a time")
	root := flag.String("root", ".", "the work tree")
	number := flag.Int("draw", 0, "draw this number of mutants at random, instead of those of the lists")
	seed := flag.Uint64("seed", 1, "determines, with the code, what -draw draws")
	lines := flag.String("lines", "", "each change of the lines that match this regular expression, as in rpc/admit.go:2.., instead of the lists")
	tests := flag.String("tests", ".*", "with -lines: the tests of the package that run")
	flag.Parse()
	wanted, err := regexp.Compile(*run)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutants: -run takes a regular expression, and there are no arguments:", err, flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := newRunner(*root, *limit)
	trials := r.listed()
	if *number > 0 || *lines != "" {
		if trials, err = r.drawn(ctx, *number, *seed, *lines, *tests); err != nil {
			fmt.Fprintf(os.Stderr, "mutants: making mutants of the code in %s: %v\n", *root, err)
			os.Exit(2)
		}
	}
	trials = slices.DeleteFunc(trials, func(t trial) bool { return !wanted.MatchString(t.String()) })
	if *list {
		for _, t := range trials {
			fmt.Println(t)
		}
		return
	}
	if !report(ctx, os.Stdout, trials, *jobs) {
		os.Exit(1)
	}
}

// A trial is a mutant, and the function that runs its tests.
type trial struct {
	fmt.Stringer
	run func(context.Context) (outcome, string)
}

// listed returns the trials of the mutants in the lists.
func (r *runner) listed() (trials []trial) {
	for _, m := range all() {
		trials = append(trials, trial{m, func(ctx context.Context) (outcome, string) { return r.run(ctx, m) }})
	}
	return trials
}

// drawn returns the trials of n mutants that it draws, or of all those of the lines that match.
func (r *runner) drawn(ctx context.Context, n int, seed uint64, lines, tests string) (trials []trial, err error) {
	var all []drawn
	if lines == "" {
		all, err = r.draw(ctx, n, seed)
	} else {
		where, wrong := regexp.Compile(lines)
		if wrong != nil {
			return nil, wrong
		}
		all, err = r.each(ctx, where)
	}
	for _, d := range all {
		if lines != "" {
			d.tests = tests
		}
		trials = append(trials, trial{d, func(ctx context.Context) (outcome, string) { return r.runDrawn(ctx, d) }})
	}
	return trials, err
}

// report runs mutants, `jobs` of them at a time, and prints their outcomes. It reports whether all
// of them were killed.
func report(ctx context.Context, w io.Writer, trials []trial, jobs int) bool {
	type result struct {
		trial
		outcome
		said string
		took time.Duration
	}
	results := make(chan result)
	go func() {
		defer close(results)
		var all errgroup.Group
		all.SetLimit(jobs)
		for _, t := range trials {
			all.Go(func() error {
				if ctx.Err() == nil {
					begin := time.Now()
					o, said := t.run(ctx)
					results <- result{t, o, said, time.Since(begin)}
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
		fmt.Fprintf(w, "%-9v %5.1fs  %v\n", res.outcome, res.took.Seconds(), res.trial)
		if res.said != "" {
			fmt.Fprintf(w, "%18s%s\n", "", res.said)
		}
		if !res.dead() {
			alive = append(alive, res)
		}
	}
	fmt.Fprintf(w, "%d of %d mutants: %d killed, %d panicked, %d timed out, %d survived, %d broken\n",
		done, len(trials), count[killed], count[panicked], count[timedOut], count[survived], count[broken])
	for _, a := range alive {
		fmt.Fprintf(w, "%-9v %v\n", a.outcome, a.trial)
	}
	return len(alive) == 0 && done == len(trials)
}
