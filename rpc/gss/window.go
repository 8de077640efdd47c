package gss

import "sync"

// windowSize is how many calls of a context may be under way (RFC 2203 §5.3.3.1):
// those of a client with all its connections together.
const windowSize = 1024

// A window knows which sequence numbers a context has seen, as far back as it
// reaches. The zero value has seen none.
type window struct {
	mu   sync.Mutex
	high uint32                  // the greatest seen
	seen [windowSize / 64]uint64 // by number, modulo windowSize
}

// sighting is what a window says of a number.
type sighting uint8

const (
	fresh sighting = iota
	repeated
	below // what the window reaches back to: it cannot be told
)

// see takes note of a number.
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
