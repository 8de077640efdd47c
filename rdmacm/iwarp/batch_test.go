package iwarp

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/reused"
)

// A batch that was reset is like a new one, except for bytes to which nothing refers.
func TestBatchIsReset(t *testing.T) {
	b := new(batch)
	payload := make([]byte, 100)
	for range 2 {
		b.grow(10)
		b.exposed, b.exposing = true, true
		b.refer(payload)
		b.exposing = false
		b.grow(10)
		b.full = true
		b.reset()
		if d := reused.Difference(b, new(batch), "scratch", "ends", "headers"); d != "" {
			t.Error(d)
		}
	}
}
