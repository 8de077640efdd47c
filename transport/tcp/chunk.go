package tcp

import (
	"sync"
	"sync/atomic"
)

// chunkSize is how many words of replies are gathered, in bytes.
const chunkSize = 64 << 10

// A counted is memory counted by the pieces of it that wait to be written: a chunk,
// or payload memory.
type counted interface {
	Retain()
	Release()
}

// A chunk is memory for words on their way out, counted by the pieces of it that
// wait to be written, and by the connection that appends to it.
type chunk struct {
	refs atomic.Int32
	used int
	b    [chunkSize]byte
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// newChunk is an empty chunk with one reference.
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

// tail makes room for n more bytes in *k: it is empty again if all of it was
// written, or a new one where it is full. n is at most chunkSize.
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

// drop gives up the right to append.
func drop(k **chunk) {
	if *k != nil {
		(*k).Release()
		*k = nil
	}
}
