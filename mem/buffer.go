package mem

import "sync/atomic"

// A Buffer is a contiguous block of payload memory, page-aligned, counted by
// references. It implements xdr.Releaser.
//
// A Buffer starts with one reference. The memory goes back to its pool and its
// share when the last one is released; using Bytes after that is a programmer's
// error. All methods may be called from any goroutine.
type Buffer struct {
	bytes []byte
	refs  atomic.Int32
	share *Share
	extent
}

// Bytes is the memory: as many bytes as were asked for. Its content is
// undefined at first: bytes that a reply or a file will see must be written
// first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("mem: Retain of a released Buffer")
	}
}

// Release drops a reference.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.share.free(b)
	case n < 0:
		panic("mem: Release of a released Buffer")
	}
}
