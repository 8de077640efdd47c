package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
)

const (
	directFile    = 3<<20 + 17
	directLongest = 1<<20 + 4097 // more than one WRITE or READ of 1 MiB
	directRounds  = 400
)

// direct reads and writes a file with O_DIRECT at random offsets and lengths, which are not
// aligned, and compares it with a copy in memory.
func direct(path string, seed uint64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR|syscall.O_DIRECT, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	wanted := pattern(seed, directFile)
	if _, err := f.WriteAt(wanted, 0); err != nil {
		return err
	}
	dice := rand.New(random(seed + 1))
	for round := range directRounds {
		offset := dice.IntN(directFile)
		length := 1 + dice.IntN([]int{16, 5000, 70000, directLongest}[round%4])
		length = min(length, directFile-offset)
		// The buffer begins at a random offset within a page.
		start := dice.IntN(4096)
		buffer := make([]byte, start+length)[start:]
		if round%3 == 0 {
			copy(buffer, pattern(uint64(round), length))
			copy(wanted[offset:], buffer)
			if n, err := f.WriteAt(buffer, int64(offset)); err != nil {
				return fmt.Errorf("round %d: write of %d at %d: %d, %w", round, length, offset, n, err)
			}
			continue
		}
		if n, err := f.ReadAt(buffer, int64(offset)); err != nil && err != io.EOF {
			return fmt.Errorf("round %d: read of %d at %d: %d, %w", round, length, offset, n, err)
		}
		if err := sameBytes(buffer, wanted[offset:offset+length], int64(offset)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	// A read that crosses the end of the file is short. A read beyond the end is empty.
	tail := make([]byte, 1000)
	if n, err := f.ReadAt(tail, directFile-13); n != 13 || err != io.EOF {
		return fmt.Errorf("a read of 1000 at 13 bytes before the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(tail, directFile+5000); n != 0 || err != io.EOF {
		return fmt.Errorf("a read past the end: %d, %v", n, err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return sameBytes(got, wanted, 0)
}
