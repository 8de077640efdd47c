package tcp

import (
	"sync"
	"sync/atomic"
)

// chunkSize is the number of bytes of reply words in one chunk.
const chunkSize = 64 << 10

// A counted is reference-counted memory, a chunk or payload memory. Each piece of it that
// waits to be written holds a reference.
type counted interface {
	Retain()
	Release()
}

// A chunk is reference-counted memory for words on their way out. Each piece that waits to
// be written holds a reference, and so does the connection that appends to it.
type chunk struct {
	refs atomic.Int32
	used int
	b    [chunkSize]byte
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// newChunk returns an empty chunk with one reference.
func newChunk() *chunk {
	k := chunks.Get().(*chunk)
	k.used = 0
	k.refs.Store(1)
	return k
}

// Retain implements counted.
func (k *chunk) Retain() { k.refs.Add(1) }

// Release implements counted.
func (k *chunk) Release() {
	if k.refs.Add(-1) == 0 {
		chunks.Put(k)
	}
}

// tail returns *k with room for n more bytes. If all of *k was written, it starts again
// empty; if it is full, a new chunk replaces it. n is at most chunkSize.
func tail(k **chunk, n int) *chunk {
	now := *k
	switch {
	case now == nil:
		*k = newChunk()
	case now.refs.Load() == 1:
		now.used = 0
	}
	if now = *k; n > chunkSize-now.used {
		now.Release()
		*k = newChunk()
	}
	return *k
}

// gather copies b to the end of *k.
func gather(k **chunk, b []byte) (*chunk, []byte) {
	now := tail(k, len(b))
	at := now.used
	now.used += copy(now.b[at:], b)
	return now, now.b[at:now.used]
}

// drop gives up *k: the connection appends to it no more.
func drop(k **chunk) {
	if *k != nil {
		(*k).Release()
		*k = nil
	}
}
