package iwarp

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A peer that sends or takes a byte now and then is not stalled, however long the whole work
// takes. It is stalled if no byte has moved for StallTimeout.
func TestStallIsCountedFromTheLastByte(t *testing.T) {
	for kind := range watched {
		synctest.Test(t, func(t *testing.T) {
			const stall = 30 * time.Second
			var w watch
			var pending [watched]bool
			var progress [watched]uint64
			pending[kind] = true
			for range 100 {
				progress[kind]++
				for range ticks - 1 {
					if err := w.judge(&pending, &progress, stall); err != nil {
						t.Fatalf("%s: %v", undone[kind], err)
					}
					time.Sleep(stall / ticks)
				}
			}
			for range ticks {
				time.Sleep(stall / ticks)
				if err := w.judge(&pending, &progress, stall); err != nil {
					if !errors.Is(err, rdmacm.ErrStalled) || !errors.Is(err, rdmacm.ErrTimeout) {
						t.Errorf("ended with %v", err)
					}
					return
				}
			}
			t.Errorf("%s: a peer of which nothing moves is let be", undone[kind])
		})
	}
}
