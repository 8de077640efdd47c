// Package collector bounds the garbage of a process whose heap is mostly small, and
// large while many clients are connected.
//
// With the runtime's own setting (GOGC=100) the heap may hold as much garbage as what
// lives on it. That is right for a small heap: calls that change names leave some
// kilobytes each, and to collect more often costs processor time that they need. With
// ten thousand connections it would be a hundred megabytes for nothing.
package collector

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// A heap of more than largeHeap bytes, garbage included, is large, and is so until
	// it has fewer than smallHeap.
	largeHeap, smallHeap = 32 << 20, 16 << 20
	// By how many percent of what lives on it a heap may grow between collections.
	largePercent, smallPercent = 30, 100
	// lookEvery is short beside the time in which thousands of clients connect.
	lookEvery = 250 * time.Millisecond
)

// Tune sets how often the heap is collected, until ctx ends. Where the environment has
// GOGC, the user has decided, and Tune does nothing.
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for is := smallPercent; ; {
		if want := percent(is, heap()); want != is {
			debug.SetGCPercent(want)
			is = want
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// percent is the setting for a heap of so many bytes, where it is another one now.
func percent(is int, heap uint64) int {
	switch {
	case heap > largeHeap:
		return largePercent
	case heap < smallHeap:
		return smallPercent
	}
	return is
}

// heap is how many bytes the objects on the heap have, those not yet collected among
// them.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
