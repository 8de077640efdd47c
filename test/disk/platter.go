package disk

import (
	"math/rand/v2"
	"slices"
)

const (
	blockSize  = 4096
	sectorSize = 512
)

// A block is part of one or more images. Once it is in an image, its content does not change,
// because images share blocks.
type block [blockSize]byte

// An image is the content of a disk, by block number. Blocks that were never written are zeros.
type image map[int64]*block

// A platter is a disk in memory with a cache. Reads return written data at once. A flush makes
// all written data stable. In a power cut, each sector that was written since the last flush may
// or may not survive, because a disk writes sectors in any order.
type platter struct {
	size   int64
	seen   image // the content that reads return
	stable image
	cached []cachedWrite // writes since the last flush, in order
	// flushed is called with each block that a flush makes stable; it may be nil.
	flushed func(b *block)
}

// A cachedWrite is a write of the sectors `from` to `to`-1 of a block.
type cachedWrite struct {
	block    int64
	from, to int
	content  *block
}

func newPlatter(size int64) *platter {
	return &platter{size: size, seen: make(image), stable: make(image)}
}

func (p *platter) read(b []byte, at int64) {
	for len(b) > 0 {
		in := int(at % blockSize)
		n := min(len(b), blockSize-in)
		if have := p.seen[at/blockSize]; have != nil {
			copy(b[:n], have[in:])
		} else {
			clear(b[:n])
		}
		b, at = b[n:], at+int64(n)
	}
}

// write writes b at an offset. Kernels write whole sectors. Programs that format disks may write
// parts of sectors.
func (p *platter) write(b []byte, at int64) {
	for len(b) > 0 {
		number, in := at/blockSize, int(at%blockSize)
		n := min(len(b), blockSize-in)
		content := new(block)
		if have := p.seen[number]; have != nil && n < blockSize {
			*content = *have
		}
		copy(content[in:], b[:n])
		p.seen[number] = content
		p.cached = append(p.cached, cachedWrite{number, in / sectorSize, (in + n + sectorSize - 1) / sectorSize, content})
		b, at = b[n:], at+int64(n)
	}
}

func (p *platter) flush() {
	for _, w := range p.cached {
		p.stable[w.block] = p.seen[w.block]
		if p.flushed != nil {
			p.flushed(w.content)
		}
	}
	p.cached = nil
}

// A survivors says which part of the unflushed writes survives a power cut.
type survivors int

const (
	nothing  survivors = iota // no sector
	anything                  // most writes as a whole, the others sector by sector, each with a probability of one half
	all
)

func (s survivors) String() string { return [...]string{"nothing", "anything", "all"}[s] }

// cut returns the content of the disk after a power cut. The parameter s says which of the
// unflushed writes survive.
func (p *platter) cut(s survivors, r *rand.Rand) *platter {
	left := newPlatter(p.size)
	for n, b := range p.stable {
		left.stable[n] = b
	}
	for _, w := range p.cached {
		content := new(block)
		if have := left.stable[w.block]; have != nil {
			*content = *have
		}
		whole := r.IntN(2) == 0
		for sector := w.from; sector < w.to; sector++ {
			lost := s == nothing || s == anything && r.IntN(2) == 0
			if s == anything && w.to-w.from > 1 && r.IntN(8) != 0 {
				lost = !whole // most writes survive or are lost as a whole
			}
			if !lost {
				copy(content[sector*sectorSize:(sector+1)*sectorSize], w.content[sector*sectorSize:])
			}
		}
		left.stable[w.block] = content
	}
	for n, b := range left.stable {
		left.seen[n] = b
	}
	return left
}

// clone returns a copy of the disk, with all of its content stable.
func (p *platter) clone() *platter {
	p.flush()
	return p.cut(nothing, nil)
}

// find returns the numbers of the blocks for which wanted returns true.
func (p *platter) find(wanted func(b *block) bool) (all []int64) {
	for n, b := range p.seen {
		if wanted(b) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}
