package mem

import "sync/atomic"

// A Buffer is a contiguous block of payload memory, page-aligned, counted by references. It
// implements xdr.Releaser.
//
// A Buffer starts with one reference. Releasing the last one returns the memory to its pool,
// share and group; using Bytes after that is a programming error. All methods may be called from
// any goroutine.
type Buffer struct {
	bytes  []byte
	refs   atomic.Int32
	share  *Share
	group  *Group
	tick   uint64  // Pool.tick when the Buffer was granted
	unused *Buffer // the next in the pool's list of unused Buffers
	extent
}

// Bytes returns the memory: the requested number of bytes, with a capacity of whole pages. Its
// content is undefined at first: write every byte before it goes to a reply or a file.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if b.share == nil {
		panic("mem: Retain of a released Buffer")
	}
	b.refs.Add(1)
}

// Release drops a reference. If requests waited for the memory, it may call their Granted.
func (b *Buffer) Release() {
	s := b.share
	if s == nil {
		panic("mem: Release of a released Buffer")
	}
	// A Buffer that is not used keeps a count of 1, which is the first reference of its next user.
	// So the release of the last reference need not write the count.
	if b.refs.Load() != 1 {
		if b.refs.Add(-1) > 0 {
			return
		}
		b.refs.Store(1)
	}
	s.free(b)
}

// bufferLocked returns the Buffer for e. Unused Buffers are used again, so that
// in steady state none is allocated.
func (p *Pool) bufferLocked(s *Share, g *Group, e extent, size int) *Buffer {
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
