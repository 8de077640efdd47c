package byterange

import (
	"slices"
	"sort"
)

// ToEnd is the Last, and the length on the wire, of a Range up to the end of the file, wherever that is.
const ToEnd = 1<<64 - 1

// A Range is a range of bytes of a file, and the mode of its lock.
type Range struct {
	First, Last uint64 // offsets of its first and last byte
	Write       bool
}

// At converts an offset and a length from the wire (RFC 8881 §18.10.3). It returns false if the length is
// 0, or the range would end beyond the highest offset.
func At(offset, length uint64, write bool) (Range, bool) {
	switch {
	case length == 0:
		return Range{}, false
	case length == ToEnd:
		return Range{offset, ToEnd, write}, true
	case offset > ToEnd-length:
		return Range{}, false
	}
	return Range{offset, offset + length - 1, write}, true
}

// Length returns the length of r on the wire.
func (r *Range) Length() uint64 {
	if r.Last == ToEnd {
		return ToEnd
	}
	return r.Last - r.First + 1
}

// Overlaps reports whether r and o have a byte in common.
func (r *Range) Overlaps(o *Range) bool { return r.First <= o.Last && o.First <= r.Last }

// Conflicts reports whether r and o conflict if they belong to different owners.
func (r *Range) Conflicts(o *Range) bool { return (r.Write || o.Write) && r.Overlaps(o) }

// A Set holds the ranges that one Holder has locked in a file, in ascending order. They do not overlap.
// Adjacent ranges of the same mode are merged into one.
type Set []Range

// from returns the index of the first range whose last byte is at or after offset.
func (rs Set) from(offset uint64) int {
	return sort.Search(len(rs), func(i int) bool { return rs[i].Last >= offset })
}

// touching returns the ranges that overlap r or are directly adjacent to it.
func (rs Set) touching(r Range) Set {
	if r.First > 0 {
		r.First--
	}
	if r.Last < ToEnd {
		r.Last++
	}
	from := rs.from(r.First)
	to := from
	for to < len(rs) && rs[to].First <= r.Last {
		to++
	}
	return rs[from:to]
}

// lock returns the set after r was locked. Within r, the mode of r replaces earlier modes.
func (rs Set) lock(r Range) Set {
	rs = rs.unlock(r.First, r.Last)
	i := rs.from(r.First)
	if i < len(rs) && rs[i].Write == r.Write && r.Last != ToEnd && rs[i].First == r.Last+1 {
		r.Last = rs[i].Last
		rs = slices.Delete(rs, i, i+1)
	}
	if i > 0 && rs[i-1].Write == r.Write && rs[i-1].Last+1 == r.First {
		rs[i-1].Last = r.Last
		return rs
	}
	return slices.Insert(rs, i, r)
}

// Part returns the parts of the ranges between the offsets first and last, both included.
func (rs Set) Part(first, last uint64) (all []Range) {
	for i := rs.from(first); i < len(rs) && rs[i].First <= last; i++ {
		all = append(all, Range{max(rs[i].First, first), min(rs[i].Last, last), rs[i].Write})
	}
	return all
}

// Splits reports whether an unlock from first to last would split one range into two.
func (rs Set) Splits(first, last uint64) bool {
	i := rs.from(first)
	return i < len(rs) && rs[i].First < first && rs[i].Last > last
}

// unlock returns the ranges without the part from first to last.
func (rs Set) unlock(first, last uint64) Set {
	i := rs.from(first)
	j := i
	for j < len(rs) && rs[j].First <= last {
		j++
	}
	if i == j {
		return rs
	}
	var rest [2]Range
	keep := rest[:0]
	if head := rs[i]; head.First < first {
		head.Last = first - 1
		keep = append(keep, head)
	}
	if tail := rs[j-1]; tail.Last > last {
		tail.First = last + 1
		keep = append(keep, tail)
	}
	return slices.Replace(rs, i, j, keep...)
}
