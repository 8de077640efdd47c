package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// random returns a source of random numbers that depends on the seed only.
func random(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// pattern returns `length` bytes of content that depends on the seed only.
func pattern(seed uint64, length int) []byte {
	b := make([]byte, length)
	random(seed).Read(b)
	return b
}

// sameBytes returns nil if two byte strings are equal. Otherwise it returns an error with their
// lengths, or with the file offset of the first difference.
func sameBytes(got, wanted []byte, offset int64) error {
	if len(got) != len(wanted) {
		return fmt.Errorf("%d bytes at offset %d, not %d", len(got), offset, len(wanted))
	}
	for i := range got {
		if got[i] == wanted[i] {
			continue
		}
		end := min(i+16, len(got))
		different := 0
		for j := i; j < len(got); j++ {
			if got[j] != wanted[j] {
				different++
			}
		}
		return fmt.Errorf("at offset %d (in %d bytes from %d; %d bytes differ): % x, wanted % x", offset+int64(i), len(got), offset, different, got[i:end], wanted[i:end])
	}
	return nil
}
