package mem

import "golang.org/x/sys/unix"

// trimOrder is the largest block, 2^trimOrder pages, that is out of use at a
// time while the kernel takes its pages: 1 MiB.
const trimOrder = 8

// Trim gives the memory of all free pages back to the kernel and returns how
// many bytes that were. It stops early when a request waits.
func (p *Pool) Trim() int64 { return p.trim(0, false) }

// Housekeep gives back what was not needed lately: free pages beyond the most
// that was in use at any time since the call before the last, and what charges
// leave no room for. Call it every few seconds; a pool that is idle for two
// intervals occupies nothing, and one that is busy keeps its pages. It returns
// how many bytes were given back.
func (p *Pool) Housekeep() int64 {
	p.mu.Lock()
	most := max(int64(p.total())-p.heapPages, 0)
	keep := min(max(p.recent, p.earlier), int32(most))
	p.earlier, p.recent = p.recent, p.inUse()
	p.mu.Unlock()
	return p.trim(keep, false)
}

// trim gives free pages back, highest first, until no more than keep pages of
// the arena may be resident. Unless it is urgent it stops when a request waits.
func (p *Pool) trim(keep int32, urgent bool) int64 {
	p.mu.Lock()
	if p.trimming || p.closed {
		p.mu.Unlock()
		return 0
	}
	p.trimming = true
	gone := p.trimZone(p.reserve, p.main.total, keep, urgent)
	gone += p.trimZone(p.main, 0, keep, urgent)
	p.trimmed += uint64(gone)
	p.trimming = false
	p.trimDone.Broadcast()
	p.grant()
	p.unmap()
	p.deliver()
	return gone
}

// trimZone is trim for the zone that begins at the page given. p.mu is held, and
// let go and taken again.
func (p *Pool) trimZone(zone *buddy, begin, keep int32, urgent bool) (gone int64) {
	below := zone.total
	for p.pinned == 0 && (urgent || p.waiting == 0) && p.resident() > keep {
		zone.cool()
		last := zone.lastTouched(below)
		if last < 0 {
			break
		}
		// The block is taken out of the allocator, so that the kernel's work
		// is done without the lock.
		e := zone.carve(last, trimOrder)
		below = e.page
		p.mu.Unlock()
		at := int(begin+e.page) * PageSize
		err := unix.Madvise(p.arena[at:at+int(e.pages)*PageSize], unix.MADV_DONTNEED)
		p.mu.Lock()
		if err == nil {
			n := unset(zone.touched, e)
			zone.residue -= n
			gone += int64(n) * PageSize
		}
		zone.put(e)
		if p.waiting > 0 {
			p.grant()
			p.deliver()
			p.mu.Lock()
		}
	}
	return gone
}
