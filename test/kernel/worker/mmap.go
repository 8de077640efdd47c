package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const mappedFile = 8<<20 + 1234

// mapped writes a file through a shared mapping and reads it with O_DIRECT. Then it writes with
// O_DIRECT and reads through a new mapping. Each time it compares the bytes that it reads with
// those that it wrote.
func mapped(path string, seed uint64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	wanted := pattern(seed, mappedFile)
	if _, err := f.Write(wanted); err != nil {
		return err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, mappedFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	dice := rand.New(random(seed + 1))
	for round := range 300 {
		offset := dice.IntN(mappedFile)
		length := min(1+dice.IntN(20000), mappedFile-offset)
		change := pattern(uint64(round), length)
		copy(memory[offset:], change)
		copy(wanted[offset:], change)
		if round%50 == 0 {
			if err := unix.Msync(memory, unix.MS_SYNC); err != nil {
				return fmt.Errorf("msync: %w", err)
			}
		}
	}
	if err := unix.Msync(memory, unix.MS_SYNC); err != nil {
		return fmt.Errorf("msync: %w", err)
	}
	if err := unix.Munmap(memory); err != nil {
		return err
	}
	past, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer past.Close()
	got := make([]byte, mappedFile)
	if n, err := past.ReadAt(got, 0); n != mappedFile {
		return fmt.Errorf("reading back: %d, %v", n, err)
	}
	if err := sameBytes(got, wanted, 0); err != nil {
		return fmt.Errorf("written through a mapping: %w", err)
	}
	change := pattern(seed+2, 100_000)
	copy(wanted[12345:], change)
	if _, err := past.WriteAt(change, 12345); err != nil {
		return err
	}
	if memory, err = unix.Mmap(int(f.Fd()), 0, mappedFile, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	if err := sameBytes(memory, wanted, 0); err != nil {
		return fmt.Errorf("read through a mapping: %w", err)
	}
	return unix.Munmap(memory)
}
