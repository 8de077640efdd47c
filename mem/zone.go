package mem

// The arena has two zones. Any request may have pages of the main zone. The reserve, at the
// arena's end, is for small requests only: they find memory there while large requests hold the
// whole main zone or wait for it. While a large request waits, no small one gets pages of the
// main zone, so that the main zone empties for the large one.

// smallPages is the largest size of a small request: 64 KiB.
const smallPages = (64 << 10) / PageSize

// reserveOf returns the size of the reserve in pages: a sixteenth of the arena, and at least 1
// MiB.
func reserveOf(total int32) int32 { return max(total/16, (1<<20)/PageSize) }

// takeMainLocked takes n contiguous pages of the main zone. Heap bytes that are
// charged to shares count as used pages.
func (p *Pool) takeMainLocked(n int32) (extent, bool) {
	if int64(p.main.inUse+n)+p.heapPages > int64(p.main.total) {
		return extent{}, false
	}
	return p.main.alloc(n)
}

// takeReserveLocked takes n contiguous pages of the reserve for a share of c.
func (p *Pool) takeReserveLocked(c *Client, n int32) (extent, bool) {
	if n > smallPages || !p.mayTakeLocked(c, n) {
		return extent{}, false
	}
	e, ok := p.reserve.alloc(n)
	if ok {
		e.page += p.main.total
		c.small += n
	}
	return e, ok
}

// mayTakeLocked reports whether c may take n more pages of the reserve.
//
// A client's limit falls with the cube of the free part of the reserve, from an eighth of the
// reserve to one page. So the first clients get as much as they need, and there is still a page
// for a new client after hundreds have taken their part.
func (p *Pool) mayTakeLocked(c *Client, n int32) bool {
	free, all := int64(p.reserve.free()), int64(p.reserve.total)
	return int64(c.small+n) <= max(free*free/all*free/all/8, 1)
}

// putBackLocked returns e, which c held, to its zone.
func (p *Pool) putBackLocked(c *Client, e extent) {
	if e.page < p.main.total {
		p.main.release(e)
		return
	}
	p.reserve.release(extent{e.page - p.main.total, e.pages})
	c.small -= e.pages
}

// inUse returns the number of pages in use by Buffers.
func (p *Pool) inUse() int32 { return p.main.inUse + p.reserve.inUse }

// resident returns how many pages may occupy memory.
func (p *Pool) resident() int32 { return p.main.resident + p.reserve.resident }
