package mem

import "math/bits"

// An extent is a run of pages in the arena.
type extent struct {
	page, pages int32
}

// buddy is an allocator of contiguous pages. Free pages are kept as blocks of
// 2^k pages, aligned to their size; neighbours of one size that share a parent
// are joined at once. An allocation takes exactly the pages asked for: what
// its block has beyond them stays free. Allocation and release take O(log n)
// steps, but for setting the bits of the pages concerned.
//
// What is released is kept warm at first, whole, for the next allocation of as
// many pages, a few extents at most: the usual sizes are taken and given back
// all the time, and neither splitting nor joining. Warm extents count as free;
// before an allocation fails they are joined with the rest.
//
// Arrays start as zero and zero means nothing, so that the bookkeeping of
// pages never used costs no memory either.
type buddy struct {
	total int32 // pages
	free  int32 // pages
	order []uint8
	next  []int32
	prev  []int32
	heads [maxOrders]int32
	// nonEmpty has bit k set where heads[k] has a block.
	nonEmpty uint32
	// touched has a bit set for each free page that may be resident.
	touched []uint64
	// residue is how many free pages may be resident: bits of touched, and
	// pages of warm extents, which have no bits.
	residue int32
	// warm holds an extent of n pages at index n % len(warm).
	warm [16]extent
}

// maxOrders bounds the block sizes: 2^30 pages are 4 TiB.
const maxOrders = 31

// Links and orders are stored plus one, so that zero means none.

func newBuddy(total int32) *buddy {
	a := &buddy{
		total:   total,
		order:   make([]uint8, total),
		next:    make([]int32, total),
		prev:    make([]int32, total),
		touched: make([]uint64, (int(total)+63)/64),
	}
	a.put(extent{0, total})
	return a
}

// largest is the biggest allocation that an empty arena can satisfy, in pages.
func (a *buddy) largest() int32 {
	return 1 << (bits.Len32(uint32(a.total)) - 1)
}

// alloc takes n contiguous pages; ok is false where no block has so many.
func (a *buddy) alloc(n int32) (e extent, ok bool) {
	if w := &a.warm[n%int32(len(a.warm))]; w.pages == n {
		e, *w = *w, extent{}
		a.free -= n
		a.residue -= n
		return e, true
	}
	if e, ok = a.split(n); !ok && a.cool() {
		e, ok = a.split(n)
	}
	return e, ok
}

// split takes n pages out of the smallest block that has them.
func (a *buddy) split(n int32) (e extent, ok bool) {
	want := bits.Len32(uint32(n - 1))
	have := a.nonEmpty >> want
	if have == 0 {
		return extent{}, false
	}
	k := want + bits.TrailingZeros32(have)
	at := a.heads[k] - 1
	a.unlink(at, k)
	e = extent{at, n}
	// The tail goes back as the blocks that a split would have left: the
	// largest last, so that no two of them can be joined.
	a.link(extent{at + n, 1<<k - n})
	a.free -= n
	a.residue -= a.mark(e, false)
	return e, true
}

// release gives e back; its pages may be resident.
func (a *buddy) release(e extent) {
	if w := &a.warm[e.pages%int32(len(a.warm))]; w.pages == 0 {
		*w = e
		a.free += e.pages
		a.residue += e.pages
		return
	}
	a.residue += a.mark(e, true)
	a.put(e)
}

// cool joins the warm extents with the rest and says whether there were any.
func (a *buddy) cool() bool {
	any := false
	for i, e := range a.warm {
		if e.pages > 0 {
			any = true
			a.warm[i] = extent{}
			a.free -= e.pages
			a.residue -= e.pages
			a.residue += a.mark(e, true)
			a.put(e)
		}
	}
	return any
}

// put frees e without touching the residency of its pages.
func (a *buddy) put(e extent) {
	a.free += e.pages
	for e.pages > 0 {
		k := a.piece(e)
		a.join(e.page, k)
		e.page += 1 << k
		e.pages -= 1 << k
	}
}

// link puts e on the free lists where none of its blocks can have a free
// buddy.
func (a *buddy) link(e extent) {
	for e.pages > 0 {
		k := a.piece(e)
		a.push(e.page, k)
		e.page += 1 << k
		e.pages -= 1 << k
	}
}

// piece is the order of the largest aligned block at the start of e.
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

// mark sets or clears the touched bits of e and returns how many changed.
func (a *buddy) mark(e extent, set bool) (changed int32) {
	from, to := int(e.page), int(e.page+e.pages)
	for from < to {
		w, lo := from/64, from%64
		hi := min(64, lo+to-from)
		mask := ^uint64(0) << lo & (^uint64(0) >> (64 - hi))
		if set {
			changed += int32(bits.OnesCount64(mask &^ a.touched[w]))
			a.touched[w] |= mask
		} else {
			changed += int32(bits.OnesCount64(mask & a.touched[w]))
			a.touched[w] &^= mask
		}
		from += hi - lo
	}
	return changed
}

// lastTouched finds the highest touched page below limit, or -1. Warm extents
// are not looked at.
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

// carve takes the free block of at most 2^most pages that holds the free page
// given, as an allocation would, but leaves its touched bits as they are.
func (a *buddy) carve(page int32, most int) extent {
	k := 0
	at := page
	for int(a.order[at]) != k+1 {
		k++
		at = page &^ (1<<k - 1)
	}
	a.unlink(at, k)
	for k > most {
		k--
		half := at + 1<<k
		if page >= half {
			a.push(at, k)
			at = half
		} else {
			a.push(half, k)
		}
	}
	a.free -= 1 << k
	return extent{at, 1 << k}
}
