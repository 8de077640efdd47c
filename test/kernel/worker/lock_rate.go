package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lockRate locks and unlocks bytes of a file for some seconds, each of the owners a byte of its own, and prints how often
// that was done in a second.
func lockRate(path string, owners, seconds int) error {
	var pairs atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, owners)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := range owners {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		all.Go(func() {
			for time.Now().Before(end) {
				for _, kind := range []int16{unix.F_WRLCK, unix.F_UNLCK} {
					if err := lockBytes(f, unix.F_OFD_SETLK, 0, kind, int64(i), 1, false); err != nil {
						errs <- err
						return
					}
				}
				pairs.Add(1)
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		fmt.Printf("pairs %d %.0f\n", owners, float64(pairs.Load())/float64(seconds))
		return nil
	}
}
