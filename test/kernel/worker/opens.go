package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// filesPerDirectory is the number of files of makeFiles in each directory.
const filesPerDirectory = 1000

// tellOpens is the number of opens after which opens tells how long they took.
const tellOpens = 5000

func numbered(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprint("d", i/filesPerDirectory), fmt.Sprint("f", i))
}

// makeFiles makes files in dir for opens.
func makeFiles(dir string, count int) error {
	for i := range count {
		path := numbered(dir, i)
		if i%filesPerDirectory == 0 {
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, []byte(fmt.Sprint(i)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// opens opens the files of makeFiles and keeps them open. Then it reads some of them and writes to some, and opens and
// closes a further file in the directory other. If refused is set, an open must fail before all files are open.
func opens(dir string, count int, other string, refused bool) error {
	var files []*os.File
	var last error
	start := time.Now()
	for i := range count {
		path := numbered(dir, i)
		began := time.Now()
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			last = fmt.Errorf("open of file %d, after %s: %w", i, time.Since(began).Round(time.Millisecond), err)
			break
		}
		files = append(files, f)
		if n := len(files); n%tellOpens == 0 {
			fmt.Fprintf(os.Stderr, "%d files open after %s\n", n, time.Since(start).Round(time.Millisecond))
		}
	}
	fmt.Printf("%d files opened in %s; %v\n", len(files), time.Since(start).Round(time.Millisecond), last)
	if refused != (last != nil) {
		return fmt.Errorf("opened %d of %d files, the last open ended with %v; a refusal was expected: %v", len(files), count, last, refused)
	}
	for i := 0; i < len(files); i += 97 {
		got := make([]byte, 16)
		n, err := files[i].ReadAt(got[:len(fmt.Sprint(i))], 0)
		if err != nil || string(got[:n]) != fmt.Sprint(i) {
			return fmt.Errorf("file %d has %q, %v", i, got[:n], err)
		}
		if _, err := files[i].WriteAt([]byte("written"), 100); err != nil {
			return err
		}
		if err := files[i].Sync(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(other, "further"), []byte("further"), 0o644); err != nil {
		return fmt.Errorf("in another export: %w", err)
	}
	began := time.Now()
	for _, f := range files {
		if err := f.Close(); err != nil {
			return err
		}
	}
	fmt.Printf("closed in %s\n", time.Since(began).Round(time.Millisecond))
	if f, err := os.OpenFile(numbered(dir, count-1), os.O_RDWR, 0); err != nil {
		return fmt.Errorf("after all were closed: %w", err)
	} else {
		return f.Close()
	}
}
