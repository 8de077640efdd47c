package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// rate does something with a file for some seconds, in a number of threads at once, and prints how often that was done in
// a second. What lock does is to lock and unlock a byte, in each thread another one. What getattr does is to read the
// file's attributes, which on a mount with actimeo=0 is one GETATTR.
func rate(path, what string, threads, seconds int) error {
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, threads)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := range threads {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		once := func() error {
			for _, kind := range []int16{unix.F_WRLCK, unix.F_UNLCK} {
				if err := lockBytes(f, unix.F_OFD_SETLK, 0, kind, int64(i), 1, false); err != nil {
					return err
				}
			}
			return nil
		}
		if what == "getattr" {
			once = func() error {
				_, err := f.Stat()
				return err
			}
		}
		all.Go(func() {
			for time.Now().Before(end) {
				if err := once(); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		fmt.Printf("rate %s %d %.0f\n", what, threads, float64(done.Load())/float64(seconds))
		return nil
	}
}
