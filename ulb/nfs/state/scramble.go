package state

import "hash/maphash"

// A scrambler maps counters to numbers that cannot be guessed from earlier ones. The mapping is
// one to one, and fixed as long as the Manager lives.
type scrambler struct{ seed maphash.Seed }

// of maps n to another 32-bit number; each kind has its own mapping. It is a Feistel network of
// four rounds, so no two n give the same number.
func (s *scrambler) of(kind, n uint32) uint32 {
	left, right := uint16(n>>16), uint16(n)
	for round := range uint32(4) {
		h := maphash.Comparable(s.seed, [3]uint32{kind, round, uint32(right)})
		left, right = right, left^uint16(h)
	}
	return uint32(left)<<16 | uint32(right)
}
