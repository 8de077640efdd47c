package tcp

import (
	"sync"
	"sync/atomic"
)

// chunkSize is how many words of replies are gathered, in bytes.
const chunkSize = 64 << 10

// A chunk is memory for words on their way out, counted by the pieces of it that
// wait to be written, and by who appends to it. It implements xdr.Releaser.
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

// Release implements xdr.Releaser.
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

// drop gives up the right to append.
func drop(k **chunk) {
	if *k != nil {
		(*k).Release()
		*k = nil
	}
}
