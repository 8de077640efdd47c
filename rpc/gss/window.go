package gss

import "sync"

// windowSize is the largest number of outstanding calls under one context (RFC 2203 §5.3.3.1), over
// all connections of the client together.
const windowSize = 1024

// A window records which of the last windowSize sequence numbers were used under a context. In the
// zero window, no number is recorded.
type window struct {
	mu   sync.Mutex
	high uint32                  // the largest number seen
	seen [windowSize / 64]uint64 // a bit for each number, modulo windowSize
}

// A sighting is the result of window.see.
type sighting uint8

const (
	fresh sighting = iota
	repeated
	below // older than the window
)

// see returns whether the number n is fresh (new), repeated, or below the window. It records a
// fresh number.
func (w *window) see(n uint32) sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.high {
		w.advance(n)
	} else if w.high-n >= windowSize {
		return below
	}
	word, bit := &w.seen[n%windowSize/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return repeated
	}
	*word |= bit
	return fresh
}

// advance moves the window forward to n.
func (w *window) advance(n uint32) {
	if n-w.high >= windowSize {
		clear(w.seen[:])
	} else {
		for i := w.high + 1; i != n+1; i++ {
			w.seen[i%windowSize/64] &^= 1 << (i % 64)
		}
	}
	w.high = n
}
