package mem

import "sync/atomic"

// A Buffer is a contiguous block of payload memory, page-aligned, counted by
// references. It implements xdr.Releaser.
//
// A Buffer starts with one reference. The memory goes back to its pool, share
// and group when the last one is released; using Bytes after that is a programmer's
// error. All methods may be called from any goroutine.
type Buffer struct {
	bytes  []byte
	refs   atomic.Int32
	share  *Share
	group  *Group
	unused *Buffer // the pool's list
	extent
}

// Bytes is the memory: as many bytes as were asked for, with a capacity of
// whole pages. Its content is undefined at first: bytes that a reply or a file
// will see must be written first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("mem: Retain of a released Buffer")
	}
}

// Release drops a reference. It may call Granted of requests that waited for
// the memory.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.share.free(b)
	case n < 0:
		panic("mem: Release of a released Buffer")
	}
}

// buffer makes the Buffer of e. p.mu is held. Buffers are used again: in
// steady state none is allocated.
func (p *Pool) buffer(s *Share, g *Group, e extent, size int) *Buffer {
	b := p.unused
	if b == nil {
		b = new(Buffer)
	} else {
		p.unused, b.unused = b.unused, nil
	}
	from, to := int(e.page)*PageSize, int(e.page+e.pages)*PageSize
	b.bytes = p.arena[from : from+size : to]
	b.share, b.group, b.extent = s, g, e
	b.refs.Store(1)

	p.granted++
	p.inUse += e.pages
	p.peak = max(p.peak, p.inUse)
	p.recent = max(p.recent, p.inUse)
	return b
}
