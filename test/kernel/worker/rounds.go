package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// rounds creates, looks up and removes files for some seconds with several workers, and prints the
// number of rounds a second of all workers together. A round creates, looks up and removes one
// file.
func rounds(dir string, workers, seconds int) error {
	var group sync.WaitGroup
	var count atomic.Int64
	failures := make(chan error, workers)
	begin := time.Now()
	end := begin.Add(time.Duration(seconds) * time.Second)
	for i := range workers {
		group.Go(func() {
			path := filepath.Join(dir, fmt.Sprintf("round%d", i))
			for time.Now().Before(end) {
				if err := round(path); err != nil {
					failures <- err
					return
				}
				count.Add(1)
			}
		})
	}
	group.Wait()
	close(failures)
	fmt.Printf("rounds %.1f\n", float64(count.Load())/time.Since(begin).Seconds())
	return <-failures
}

func round(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return os.Remove(path)
}
