package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// sparse reads the files that the file "sums" in dir lists, first with O_DIRECT in blocks of the listed size and then
// through a mapping, and compares them with the listed checksums.
func sparse(dir string) error {
	sums, err := os.Open(filepath.Join(dir, "sums"))
	if err != nil {
		return err
	}
	defer sums.Close()
	files := 0
	for lines := bufio.NewScanner(sums); lines.Scan(); files++ {
		var name string
		var block int
		var sum []byte
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %x", &name, &block, &sum); err != nil {
			return err
		}
		// O_DIRECT comes first, because the file is then not in the server's memory.
		for _, read := range []func(path string, block int) ([]byte, error){blockwise, throughMapping} {
			content, err := read(filepath.Join(dir, name), block)
			if err != nil {
				return fmt.Errorf("%s, in blocks of %d: %w", name, block, err)
			}
			if got := sha256.Sum256(content); !bytes.Equal(got[:], sum) {
				return fmt.Errorf("%s, in blocks of %d: the content differs", name, block)
			}
		}
	}
	if files == 0 {
		return errors.New("there are no files")
	}
	return nil
}

// blockwise reads a file with O_DIRECT.
func blockwise(path string, block int) (content []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	piece := make([]byte, block)
	for {
		n, err := io.ReadFull(f, piece)
		content = append(content, piece[:n]...)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return content, nil
		case err != nil:
			return nil, err
		}
	}
}

// throughMapping maps a file. A page that cannot be read ends the process with SIGBUS.
func throughMapping(path string, _ int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mapped, err := syscall.Mmap(int(f.Fd()), 0, int(is.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	defer syscall.Munmap(mapped)
	return bytes.Clone(mapped), nil
}
