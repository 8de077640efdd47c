package mem

import "golang.org/x/sys/unix"

// trimOrder is the largest block, 2^trimOrder pages, that is out of use at a
// time while the kernel takes its pages: 1 MiB.
const trimOrder = 8

// Trim gives the memory of all free pages back to the kernel and returns how
// many bytes that were. It stops early when a request waits.
func (p *Pool) Trim() int64 { return p.trim(0) }

// Housekeep gives back what was not needed lately: free pages beyond the most
// that was in use at any time since the call before the last. Call it every
// few seconds; a pool that is idle for two intervals occupies nothing, and one
// that is busy keeps its pages. It returns how many bytes were given back.
func (p *Pool) Housekeep() int64 {
	p.mu.Lock()
	keep := max(p.recent, p.earlier)
	p.earlier, p.recent = p.recent, p.inUse
	p.mu.Unlock()
	return p.trim(keep)
}

// trim gives free pages back, highest first, until no more than keep pages of
// the arena may be resident.
func (p *Pool) trim(keep int32) int64 {
	p.mu.Lock()
	if p.trimming || p.closed {
		p.mu.Unlock()
		return 0
	}
	p.trimming = true
	var gone int64
	below := p.pages.total
	for p.pinned == 0 && p.waiting.head == nil && p.inUse+p.pages.residue > keep {
		p.pages.cool()
		last := p.pages.lastTouched(below)
		if last < 0 {
			break
		}
		// The block is taken out of the allocator, so that the kernel's work
		// is done without the lock.
		e := p.pages.carve(last, trimOrder)
		below = e.page
		p.mu.Unlock()
		err := unix.Madvise(p.arena[int(e.page)*PageSize:int(e.page+e.pages)*PageSize], unix.MADV_DONTNEED)
		p.mu.Lock()
		if err == nil {
			n := p.pages.mark(e, false)
			p.pages.residue -= n
			gone += int64(n) * PageSize
		}
		p.pages.put(e)
	}
	p.trimmed += uint64(gone)
	p.trimming = false
	p.trimDone.Broadcast()
	p.grant()
	p.unmap()
	p.deliver()
	return gone
}
