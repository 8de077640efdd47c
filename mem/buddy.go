package mem

import "math/bits"

// An extent is a run of pages in the arena.
type extent struct {
	page, pages int32
}

// buddy is an allocator of contiguous pages. It keeps free pages as blocks of 2^k pages, aligned
// to their size, and joins two neighbours of one size that share a parent at once. An allocation
// takes exactly the requested pages; the rest of its block stays free.
//
// For a power of two, alloc takes the smallest block that is large enough, in O(log n) steps. For
// any other number, it takes the first run of free pages that is long enough, across blocks.
// Otherwise 257 pages at the start of a block of 512 would leave 255, too few for the next
// request for 257. If no block fits a power of two, alloc looks for a run as well. So an
// allocation fails only if no run is long enough. The search reads one bit for each page up to
// the run.
//
// A released extent first stays warm: whole, for the next allocation of as many pages. There are
// few warm extents. Thus the usual sizes are allocated and released without splitting and
// joining. Warm extents count as free; before an allocation fails, they are joined with the rest.
//
// All arrays begin as zero, and zero means nothing, so that the records of unused pages cost no
// memory either.
type buddy struct {
	total int32 // pages
	free  int32 // pages
	order []uint8
	next  []int32
	prev  []int32
	heads [maxOrders]int32
	// nonEmpty has bit k set where heads[k] has a block.
	nonEmpty uint32
	// busy has a bit set for each page that is not in a free block. All pages below low are busy.
	busy []uint64
	low  int32
	// touched has a bit set for each free page that may be resident.
	touched []uint64
	// residue is how many free pages may be resident: the set bits of touched, plus the pages of
	// warm extents, which have no bits there.
	residue int32
	// warm holds an extent of n pages at index n % len(warm).
	warm [16]extent
}

// maxOrders bounds the block sizes: 2^30 pages are 4 TiB.
const maxOrders = 31

// Links and orders are stored plus one, so that zero means none.

func newBuddy(total int32) *buddy {
	words := (int(total) + 63) / 64
	a := &buddy{
		total:   total,
		free:    total,
		order:   make([]uint8, total),
		next:    make([]int32, total),
		prev:    make([]int32, total),
		busy:    make([]uint64, words),
		touched: make([]uint64, words),
	}
	a.link(extent{0, total})
	return a
}

// alloc takes n contiguous pages. ok is false if no run is long enough.
func (a *buddy) alloc(n int32) (e extent, ok bool) {
	if w := &a.warm[n%int32(len(a.warm))]; w.pages == n {
		e, *w = *w, extent{}
		a.free -= n
		a.residue -= n
		return e, true
	}
	if e, ok = a.fit(n); !ok && a.cool() {
		e, ok = a.fit(n)
	}
	return e, ok
}

// has reports whether alloc of n pages would succeed without joining warm extents of other sizes.
func (a *buddy) has(n int32) bool {
	return a.warm[n%int32(len(a.warm))].pages == n || a.find(n) >= 0
}

// fit takes n pages that are free and not warm.
func (a *buddy) fit(n int32) (e extent, ok bool) {
	if n&(n-1) == 0 {
		if e, ok = a.split(bits.TrailingZeros32(uint32(n))); ok {
			return e, true
		}
	}
	at := a.find(n)
	if at < 0 {
		return extent{}, false
	}
	e = extent{at, n}
	for page := at; page < at+n; {
		b := a.lift(page)
		a.link(extent{b.page, max(0, at-b.page)})
		page = b.page + b.pages
		a.link(extent{at + n, max(0, page-at-n)})
	}
	a.taken(e)
	return e, true
}

// split takes 2^k pages out of the smallest block that has them.
func (a *buddy) split(k int) (e extent, ok bool) {
	have := a.nonEmpty >> k
	if have == 0 {
		return extent{}, false
	}
	from := k + bits.TrailingZeros32(have)
	at := a.heads[from] - 1
	a.unlink(at, from)
	e = extent{at, 1 << k}
	// The rest of the block goes back as smaller blocks.
	a.link(extent{at + 1<<k, 1<<from - 1<<k})
	a.taken(e)
	return e, true
}

// taken does the bookkeeping for e, which was just taken from the free blocks.
func (a *buddy) taken(e extent) {
	a.free -= e.pages
	set(a.busy, e)
	if e.page == a.low {
		a.low += e.pages
	}
	a.residue -= unset(a.touched, e)
}

// find returns the first page of the first run of n pages that are not busy, or -1.
func (a *buddy) find(n int32) int32 {
	first := true
	for page := a.low; page < a.total; {
		word := a.busy[page/64] >> (page % 64)
		busy := min(int32(bits.TrailingZeros64(^word)), a.total-page)
		if busy > 0 {
			page += busy
			continue
		}
		if first {
			a.low, first = page, false
		}
		run := page
		for page < a.total {
			word = a.busy[page/64] >> (page % 64)
			if word != 0 {
				page += int32(bits.TrailingZeros64(word))
				break
			}
			page = min((page/64+1)*64, a.total)
			if page-run >= n {
				break
			}
		}
		if page-run >= n {
			return run
		}
	}
	return -1
}

// release frees e; its pages may be resident.
func (a *buddy) release(e extent) {
	if w := &a.warm[e.pages%int32(len(a.warm))]; w.pages == 0 {
		*w = e
		a.free += e.pages
		a.residue += e.pages
		return
	}
	a.residue += set(a.touched, e)
	a.put(e)
}

// cool joins the warm extents with the rest. It returns false if there were none.
func (a *buddy) cool() bool {
	any := false
	for i, e := range a.warm {
		if e.pages > 0 {
			any = true
			a.warm[i] = extent{}
			a.free -= e.pages
			a.residue -= e.pages
			a.residue += set(a.touched, e)
			a.put(e)
		}
	}
	return any
}

// put frees e and leaves the touched bits of its pages alone.
func (a *buddy) put(e extent) {
	a.free += e.pages
	unset(a.busy, e)
	a.low = min(a.low, e.page)
	for e.pages > 0 {
		k := a.piece(e)
		a.join(e.page, k)
		e.page += 1 << k
		e.pages -= 1 << k
	}
}

// link puts e on the free lists without joining. The caller knows that none of its blocks has a
// free buddy.
func (a *buddy) link(e extent) {
	for e.pages > 0 {
		k := a.piece(e)
		a.push(e.page, k)
		e.page += 1 << k
		e.pages -= 1 << k
	}
}

// piece returns the order of the largest aligned block at the start of e.
func (a *buddy) piece(e extent) int {
	k := bits.Len32(uint32(e.pages)) - 1
	if e.page != 0 {
		k = min(k, bits.TrailingZeros32(uint32(e.page)))
	}
	return k
}

// join frees the block of order k at page, together with its free buddies.
func (a *buddy) join(page int32, k int) {
	for k < maxOrders-1 {
		other := page ^ 1<<k
		if int64(other)+1<<k > int64(a.total) || int(a.order[other]) != k+1 {
			break
		}
		a.unlink(other, k)
		page = min(page, other)
		k++
	}
	a.push(page, k)
}

func (a *buddy) push(page int32, k int) {
	a.order[page] = uint8(k + 1)
	head := a.heads[k]
	a.next[page], a.prev[page] = head, 0
	if head != 0 {
		a.prev[head-1] = page + 1
	}
	a.heads[k] = page + 1
	a.nonEmpty |= 1 << k
}

func (a *buddy) unlink(page int32, k int) {
	next, prev := a.next[page], a.prev[page]
	if prev != 0 {
		a.next[prev-1] = next
	} else {
		a.heads[k] = next
		if next == 0 {
			a.nonEmpty &^= 1 << k
		}
	}
	if next != 0 {
		a.prev[next-1] = prev
	}
	a.order[page] = 0
}

// set sets the bits of e and returns how many changed.
func set(of []uint64, e extent) (changed int32) {
	for from, to := e.page, e.page+e.pages; from < to; {
		w, mask, next := wordOf(from, to)
		changed += int32(bits.OnesCount64(mask &^ of[w]))
		of[w] |= mask
		from = next
	}
	return changed
}

// unset clears the bits of e and returns how many changed.
func unset(of []uint64, e extent) (changed int32) {
	for from, to := e.page, e.page+e.pages; from < to; {
		w, mask, next := wordOf(from, to)
		changed += int32(bits.OnesCount64(mask & of[w]))
		of[w] &^= mask
		from = next
	}
	return changed
}

// wordOf returns the index of the word with the bit of page from, a mask of that word's bits for
// pages in [from, to), and the first page of the next word.
func wordOf(from, to int32) (w int32, mask uint64, next int32) {
	w, next = from/64, min(to, (from/64+1)*64)
	mask = ^uint64(0) << (from % 64) & (^uint64(0) >> (63 - (next-1)%64))
	return w, mask, next
}

// lastTouched returns the highest touched page below limit, or -1. It ignores warm extents.
func (a *buddy) lastTouched(limit int32) int32 {
	if limit <= 0 {
		return -1
	}
	w := int(limit-1) / 64
	word := a.touched[w] & (^uint64(0) >> (63 - uint(limit-1)%64))
	for word == 0 {
		if w--; w < 0 {
			return -1
		}
		word = a.touched[w]
	}
	return int32(w*64 + bits.Len64(word) - 1)
}

// carve takes a block of at most 2^most pages around the given free page, like an allocation, but
// leaves its touched bits alone.
func (a *buddy) carve(page int32, most int) extent {
	e := a.lift(page)
	if whole := e; e.pages > 1<<most {
		e = extent{page &^ (1<<most - 1), 1 << most}
		a.link(extent{whole.page, e.page - whole.page})
		a.link(extent{e.page + e.pages, whole.page + whole.pages - e.page - e.pages})
	}
	a.free -= e.pages
	set(a.busy, e)
	return e
}

// lift takes the free block around the given free page off its list.
func (a *buddy) lift(page int32) extent {
	k := 0
	at := page
	for int(a.order[at]) != k+1 {
		k++
		at = page &^ (1<<k - 1)
	}
	a.unlink(at, k)
	return extent{at, 1 << k}
}
