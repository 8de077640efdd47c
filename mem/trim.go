package mem

import "golang.org/x/sys/unix"

// trimPages is how many pages trim gives back in one system call, at most: 1 MiB. They cannot be
// allocated during the call.
const trimPages = (1 << 20) / PageSize

// Trim gives the memory of all free pages back to the kernel and returns how many bytes that were.
// It stops early when a request waits, and gives nothing back if a device uses the arena (OnArena).
func (p *Pool) Trim() int64 { return p.trim(0, false) }

// Housekeep gives free pages back to the kernel, and returns how many bytes that were. It keeps the
// largest number of pages in use at one time during the last two intervals between its calls, within
// the ceiling less the charged heap memory. Call it every few seconds: a pool that is idle for two
// intervals then occupies no memory, and a busy one keeps its pages.
func (p *Pool) Housekeep() int64 {
	p.mu.Lock()
	most := max(int64(p.total())-p.heapPages, 0)
	keep := min(max(p.recent, p.earlier), int32(most))
	p.earlier, p.recent = p.recent, p.inUse()
	p.mu.Unlock()
	return p.trim(keep, false)
}

// trim gives free pages back, the last ones of the arena first, until at most keep pages may be
// resident. If urgent is false, it stops when a request waits.
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
	p.grantLocked()
	p.unmapLocked()
	p.deliverAndUnlock()
	return gone
}

// trimZone is trim for one zone. The parameter begin is the first page of the zone in the arena.
// The caller holds p.mu; trimZone unlocks it during system calls.
func (p *Pool) trimZone(zone *pageMap, begin, keep int32, urgent bool) (gone int64) {
	below := zone.total
	for p.pinned == 0 && (urgent || p.waiting == 0) && p.resident() > keep {
		e := zone.lastTouched(below, trimPages)
		if e.pages == 0 {
			break
		}
		below = e.page
		zone.fence(e)
		p.mu.Unlock()
		at := int(begin+e.page) * PageSize
		err := unix.Madvise(p.arena[at:at+int(e.pages)*PageSize], unix.MADV_DONTNEED)
		p.mu.Lock()
		if err == nil {
			gone += int64(zone.forget(e)) * PageSize
		}
		zone.unfence(e)
		if p.waiting > 0 {
			p.grantLocked()
			p.deliverAndUnlock()
			p.mu.Lock()
		}
	}
	return gone
}
