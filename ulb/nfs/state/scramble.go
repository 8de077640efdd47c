package state

import "hash/maphash"

// scrambler turns counters into numbers that cannot be guessed from others of them: each
// into another one, as long as the Manager lives.
type scrambler struct{ seed maphash.Seed }

// of is number n of those of a kind: a permutation of the numbers of 32 bits, by a Feistel
// network of four rounds.
func (s *scrambler) of(kind, n uint32) uint32 {
	left, right := uint16(n>>16), uint16(n)
	for round := range uint32(4) {
		h := maphash.Comparable(s.seed, [3]uint32{kind, round, uint32(right)})
		left, right = right, left^uint16(h)
	}
	return uint32(left)<<16 | uint32(right)
}
