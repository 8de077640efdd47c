package byterange

// ToEnd is the Last of a Range that reaches to the end of the file, however long the file
// becomes. On the wire, the length of such a range is also ToEnd.
const ToEnd = 1<<64 - 1

// A Range is a range of bytes of a file, and the mode of its lock.
type Range struct {
	First, Last uint64 // offsets of its first and last byte
	Write       bool
}

// At converts an offset and a length from the wire (RFC 8881 §18.10.3). It returns false if they
// are invalid: the length is 0, or the range would end beyond the highest offset.
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

// Conflicts reports whether r and o conflict if they belong to different owners: they
// overlap, and at least one of them is a write lock.
func (r *Range) Conflicts(o *Range) bool { return (r.Write || o.Write) && r.Overlaps(o) }
