package state

import (
	"slices"
	"sort"
)

// A byteRange is a locked part of a file. last is the offset of its last byte. 1<<64-1 means the
// end of the file, however long the file becomes.
type byteRange struct {
	start, last uint64
	write       bool
}

func (r *byteRange) overlaps(o *byteRange) bool { return r.start <= o.last && o.start <= r.last }

func (r *byteRange) conflicts(o *byteRange) bool { return (r.write || o.write) && r.overlaps(o) }

// ranges are the locked parts of a file under one stateid, in ascending order. They do not
// overlap, and neighbours that could be merged are merged.
type ranges []byteRange

// from returns the index of the first range whose last byte is at or after offset.
func (rs ranges) from(offset uint64) int {
	return sort.Search(len(rs), func(i int) bool { return rs[i].last >= offset })
}

// touching returns the ranges that overlap r or are directly adjacent to it.
func (rs ranges) touching(r byteRange) ranges {
	if r.start > 0 {
		r.start--
	}
	if r.last < 1<<64-1 {
		r.last++
	}
	from := rs.from(r.start)
	to := from
	for to < len(rs) && rs[to].start <= r.last {
		to++
	}
	return rs[from:to]
}

// lock returns the ranges after r was locked in its mode, which replaces the earlier mode.
func (rs ranges) lock(r byteRange) ranges {
	rs = rs.unlock(r.start, r.last)
	i := rs.from(r.start)
	if i < len(rs) && rs[i].write == r.write && r.last != 1<<64-1 && rs[i].start == r.last+1 {
		r.last = rs[i].last
		rs = slices.Delete(rs, i, i+1)
	}
	if i > 0 && rs[i-1].write == r.write && rs[i-1].last+1 == r.start {
		rs[i-1].last = r.last
		return rs
	}
	return slices.Insert(rs, i, r)
}

// part returns the ranges between start and last, cut at these bounds.
func (rs ranges) part(start, last uint64) (all ranges) {
	for i := rs.from(start); i < len(rs) && rs[i].start <= last; i++ {
		all = append(all, byteRange{max(rs[i].start, start), min(rs[i].last, last), rs[i].write})
	}
	return all
}

// splits reports whether an unlock from start to last would split one range into two.
func (rs ranges) splits(start, last uint64) bool {
	i := rs.from(start)
	return i < len(rs) && rs[i].start < start && rs[i].last > last
}

// unlock returns the ranges without the part from start to last.
func (rs ranges) unlock(start, last uint64) ranges {
	i := rs.from(start)
	j := i
	for j < len(rs) && rs[j].start <= last {
		j++
	}
	if i == j {
		return rs
	}
	var rest [2]byteRange
	keep := rest[:0]
	if head := rs[i]; head.start < start {
		head.last = start - 1
		keep = append(keep, head)
	}
	if tail := rs[j-1]; tail.last > last {
		tail.start = last + 1
		keep = append(keep, tail)
	}
	return slices.Replace(rs, i, j, keep...)
}
