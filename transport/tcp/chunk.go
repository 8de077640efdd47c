package tcp

import (
	"sync"
	"sync/atomic"
)

// chunkSize is the size of a chunk, in bytes.
const chunkSize = 64 << 10

// A counted is memory with a reference count: a chunk or payload memory. Each piece of it that
// waits to be written holds a reference.
type counted interface {
	Retain()
	Release()
}

// A chunk is memory with a reference count, for the words of messages to be sent. Words are the
// encoded bytes of a message other than payload. Each piece that waits to be written holds a
// reference, and so does the connection or output that appends words to the chunk.
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

// tail returns a chunk with room for n more bytes. If all bytes of *k were sent, tail first empties
// *k. If *k then has enough room, tail returns *k. Otherwise it makes a new chunk, and sets *k to
// it. n is at most chunkSize.
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

// gather copies b to the end of the chunk *k, or to a new chunk if *k has too little room. It
// returns the chunk and the copy.
func gather(k **chunk, b []byte) (*chunk, []byte) {
	now := tail(k, len(b))
	at := now.used
	now.used += copy(now.b[at:], b)
	return now, now.b[at:now.used]
}

// drop releases a reference to *k, if *k is not nil, and sets *k to nil.
func drop(k **chunk) {
	if *k != nil {
		(*k).Release()
		*k = nil
	}
}
