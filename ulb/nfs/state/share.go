package state

// Access is what an open file may be used for, or what it keeps others from.
type Access uint8

// Bits of Access, as OPEN has them (RFC 8881 §18.16).
const (
	AccessRead Access = 1 << iota
	AccessWrite
	AccessBoth = AccessRead | AccessWrite
)

// modes are the ways in which an owner has a file open: a bit for each pair of access
// and deny mode.
type modes uint16

func mode(access, deny Access) modes { return 1 << (access | deny<<2) }

// all are all modes, in pairs.
func (m modes) each(f func(access, deny Access)) {
	for access := range AccessBoth + 1 {
		for deny := range AccessBoth + 1 {
			if m&mode(access, deny) != 0 {
				f(access, deny)
			}
		}
	}
}

// union is what the opens come to together.
func (m modes) union() (access, deny Access) {
	m.each(func(a, d Access) {
		access |= a
		deny |= d
	})
	return access, deny
}

// within are the opens that are left when nothing beyond access and deny is.
func (m modes) within(access, deny Access) (left modes) {
	m.each(func(a, d Access) {
		if a&^access == 0 && d&^deny == 0 {
			left |= mode(a, d)
		}
	})
	return left
}

// accesses says with which access there are opens, as bits by number.
func (m modes) has(access Access) (has bool) {
	m.each(func(a, _ Access) { has = has || a == access })
	return has
}

// shares count the opens of a file by the bits of what they want and of what they deny.
type shares struct{ access, deny [2]int }

// add counts an open, or with n -1 no longer.
func (s *shares) add(access, deny Access, n int) {
	for i, bit := range [...]Access{AccessRead, AccessWrite} {
		if access&bit != 0 {
			s.access[i] += n
		}
		if deny&bit != 0 {
			s.deny[i] += n
		}
	}
}

// denied are the bits that any of the opens denies.
func (s *shares) denied() (deny Access) {
	for i, bit := range [...]Access{AccessRead, AccessWrite} {
		if s.deny[i] > 0 {
			deny |= bit
		}
	}
	return deny
}

// wanted are the bits that any of the opens has.
func (s *shares) wanted() (access Access) {
	for i, bit := range [...]Access{AccessRead, AccessWrite} {
		if s.access[i] > 0 {
			access |= bit
		}
	}
	return access
}

// conflict says whether an open cannot be beside those that there are, its own owner's
// included (RFC 8881 §9.7).
func (s *shares) conflict(access, deny Access) bool {
	return access&s.denied() != 0 || deny&s.wanted() != 0
}
