package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// stable is the prefix of names that exist all the time. churning is the prefix of names that churn
// adds and removes.
const (
	stable   = "stable-"
	churning = "churning-"
)

// list reads a directory several times, in small steps, while another client changes it. Each of
// the `count` names that exist all the time must appear exactly once in each listing. All other
// names must be names that churn creates.
func list(dir string, count, rounds int) error {
	passing := 0
	for round := range rounds {
		seen := map[string]int{}
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		for {
			names, err := f.Readdirnames(97)
			for _, name := range names {
				seen[name]++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		f.Close()
		for i := range count {
			if name := fmt.Sprintf("%s%05d", stable, i); seen[name] != 1 {
				return fmt.Errorf("round %d: %s came %d times (%d names in all)", round, name, seen[name], len(seen))
			}
		}
		for name := range seen {
			if strings.HasPrefix(name, churning) {
				passing++
			} else if !strings.HasPrefix(name, stable) {
				return fmt.Errorf("round %d: %q is listed, but was never made", round, name)
			}
		}
	}
	fmt.Printf("%d listings of %d names, and %d of the names that came and went\n", rounds, count, passing)
	return nil
}

// churn creates and removes names until the stop file exists, and prints their number. About 40 of
// them exist at a time.
func churn(dir, stop string) error {
	const window = 40
	rounds := 0
	path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%s%07d", churning, i)) }
	for ; !exists(stop); rounds++ {
		f, err := os.OpenFile(path(rounds), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		f.Close()
		if rounds >= window {
			if err := os.Remove(path(rounds - window)); err != nil {
				return err
			}
		}
	}
	for i := max(0, rounds-window); i < rounds; i++ {
		if err := os.Remove(path(i)); err != nil {
			return err
		}
	}
	fmt.Printf("%d names came and went\n", rounds)
	return nil
}
