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
	tick   uint64  // of the pool, when it was granted
	unused *Buffer // the pool's list
	extent
}

// Bytes is the memory: as many bytes as were asked for, with a capacity of
// whole pages. Its content is undefined at first: bytes that a reply or a file
// will see must be written first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.share == nil {
		panic("mem: Retain of a released Buffer")
	}
	b.refs.Add(1)
}

// Release drops a reference. It may call Granted of requests that waited for
// the memory.
func (b *Buffer) Release() {
	s := b.share
	if s == nil {
		panic("mem: Release of a released Buffer")
	}
	// A Buffer that is not in use has its next user's reference counted already:
	// with one reference nothing needs to be written.
	if b.refs.Load() != 1 {
		if b.refs.Add(-1) > 0 {
			return
		}
		b.refs.Store(1)
	}
	s.free(b)
}

// buffer makes the Buffer of e. p.mu is held. Buffers are used again: in
// steady state none is allocated.
func (p *Pool) buffer(s *Share, g *Group, e extent, size int) *Buffer {
	b := p.unused
	if b == nil {
		b = new(Buffer)
		b.refs.Store(1)
		p.buffers = append(p.buffers, b)
	} else {
		p.unused, b.unused = b.unused, nil
	}
	from, to := int(e.page)*PageSize, int(e.page+e.pages)*PageSize
	b.bytes = p.arena[from : from+size : to]
	b.share, b.group, b.extent, b.tick = s, g, e, p.tick
	p.granted++
	if n := p.inUse(); n > p.recent {
		p.recent, p.peak = n, max(p.peak, n)
	}
	return b
}
