package mem

import (
	"math/bits"
)

// An extent is a run of pages in the arena.
type extent struct {
	page, pages int32
}

// A pageMap allocates contiguous pages: the first run of free pages that is long enough. So pages that
// were just released are used again, and the pages behind them stay free for large requests. All
// arrays consist of zeros at first, so that the records of unused pages cost no memory.
type pageMap struct {
	total int32 // number of pages
	inUse int32 // pages that are allocated
	// busy has a bit set for each page that is allocated, or that Trim is giving back to the
	// kernel. All pages below low are busy.
	busy []uint64
	low  int32
	// touched has a bit set for each page that may be resident; resident is their number.
	touched  []uint64
	resident int32
}

func newPageMap(total int32) *pageMap {
	words := (int(total) + 63) / 64
	return &pageMap{total: total, busy: make([]uint64, words), touched: make([]uint64, words)}
}

// free returns how many pages are not allocated.
func (m *pageMap) free() int32 { return m.total - m.inUse }

// alloc takes n contiguous pages. ok is false if there are no n free pages in a row.
func (m *pageMap) alloc(n int32) (e extent, ok bool) {
	at := m.find(n)
	if at < 0 {
		return extent{}, false
	}
	e = extent{at, n}
	m.fence(e)
	m.inUse += n
	m.resident += set(m.touched, e)
	return e, true
}

// release frees e, which stays resident.
func (m *pageMap) release(e extent) {
	m.unfence(e)
	m.inUse -= e.pages
}

// has reports whether there is a run of n free pages.
func (m *pageMap) has(n int32) bool { return m.find(n) >= 0 }

// fence prevents the allocation of the free pages of e, and unfence allows it again.
func (m *pageMap) fence(e extent) {
	set(m.busy, e)
	if e.page == m.low {
		m.low += e.pages
	}
}

func (m *pageMap) unfence(e extent) {
	unset(m.busy, e)
	m.low = min(m.low, e.page)
}

// find returns the first page of the first run of n pages that are not busy, or -1.
func (m *pageMap) find(n int32) int32 {
	first := true
	for page := m.low; page < m.total; {
		word := m.busy[uint(page)/64] >> (uint(page) % 64)
		if busy := int32(bits.TrailingZeros64(^word)); busy > 0 {
			page += busy
			continue
		}
		if first {
			m.low, first = page, false
		}
		run := page
		for page < m.total && page-run < n {
			word = m.busy[uint(page)/64] >> (uint(page) % 64)
			if word != 0 {
				page += int32(bits.TrailingZeros64(word))
				break
			}
			page = min((page|63)+1, m.total)
		}
		if page-run >= n {
			return run
		}
	}
	return -1
}

// lastTouched returns the last run of free pages that may be resident, before the page below. If
// the run has more pages than most, lastTouched returns only its last most pages. If there is no
// such run, e is empty.
func (m *pageMap) lastTouched(below, most int32) (e extent) {
	free := func(page int32) uint64 { return m.touched[page/64] &^ m.busy[page/64] }
	for page := below - 1; page >= 0; page-- {
		if word := free(page) << (63 - page%64); word == 0 {
			page -= page % 64
		} else {
			page -= int32(bits.LeadingZeros64(word))
			for e.pages < most && page >= 0 && free(page)&(1<<(page%64)) != 0 {
				e = extent{page, e.pages + 1}
				page--
			}
			return e
		}
	}
	return e
}

// forget notes that the pages of e are not resident any more. It returns how many of them may have
// been resident before.
func (m *pageMap) forget(e extent) (pages int32) {
	pages = unset(m.touched, e)
	m.resident -= pages
	return pages
}

// set sets the bits for the pages of e, and returns how many bits changed.
func set(of []uint64, e extent) (changed int32) {
	first, last := e.words()
	for w := first; w <= last; w++ {
		mask := e.mask(w, first, last)
		changed += int32(bits.OnesCount64(mask &^ of[w]))
		of[w] |= mask
	}
	return changed
}

// unset clears the bits for the pages of e, and returns how many bits changed.
func unset(of []uint64, e extent) (changed int32) {
	first, last := e.words()
	for w := first; w <= last; w++ {
		mask := e.mask(w, first, last)
		changed += int32(bits.OnesCount64(mask & of[w]))
		of[w] &^= mask
	}
	return changed
}

// words returns the indices of the first and the last word with bits of e.
func (e extent) words() (first, last uint) {
	return uint(e.page) / 64, uint(e.page+e.pages-1) / 64
}

// mask returns the bits of e in the word with the index w. The parameters first and last are the
// results of e.words.
func (e extent) mask(w, first, last uint) uint64 {
	mask := ^uint64(0)
	if w == first {
		mask <<= uint(e.page) % 64
	}
	if w == last {
		mask &= ^uint64(0) >> (63 - uint(e.page+e.pages-1)%64)
	}
	return mask
}

// The arena has two zones. Any request may have pages of the main zone. The reserve, at the arena's
// end, is for small requests only, so that they find memory while large requests hold the whole
// main zone or wait for it. While a large request is next (Pool.current), no small one gets pages
// of the main zone, so that the main zone empties for the large one.

// smallPages is the largest size of a small request: 64 KiB.
const smallPages = (64 << 10) / PageSize

// reserveOf returns the size, in pages, of the reserve for small requests: a sixteenth of the
// arena, and at least 1 MiB.
func reserveOf(total int32) int32 { return max(total/16, (1<<20)/PageSize) }

// takeReserveLocked takes n contiguous pages of the reserve for a share of c.
func (p *Pool) takeReserveLocked(c *Client, n int32) (extent, bool) {
	if n > smallPages || !p.mayHaveLocked(c.small+n) {
		return extent{}, false
	}
	e, ok := p.reserve.alloc(n)
	if ok {
		e.page += p.main.total
		c.small += n
		c.settleLocked()
	}
	return e, ok
}

// mayHaveLocked reports whether a client may have n pages of the reserve in all. The limit of a client falls
// with the cube of the free part, from an eighth of the reserve to one page. So the first clients get
// as much as they need, and hundreds of greedy clients still leave a page for a new one.
func (p *Pool) mayHaveLocked(n int32) bool {
	free, all := int64(p.reserve.free()), int64(p.reserve.total)
	return int64(n) <= max(free*free/all*free/all/8, 1)
}

// putBackLocked returns e, which c held, to its zone.
func (p *Pool) putBackLocked(c *Client, e extent) {
	if e.page < p.main.total {
		p.main.release(e)
		return
	}
	p.reserve.release(extent{e.page - p.main.total, e.pages})
	c.small -= e.pages
	c.settleLocked()
}

// inUse returns the number of pages in use by Buffers.
func (p *Pool) inUse() int32 { return p.main.inUse + p.reserve.inUse }

// resident returns how many pages may occupy memory.
func (p *Pool) resident() int32 { return p.main.resident + p.reserve.resident }
