package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kinds of rotation of a log. Each log file in the folder has the name of its rotation.
const (
	rotateRename = "rename"       // the log is renamed, and the writer opens a new one
	rotateCreate = "create"       // another process makes the new log with a temporary name, and renames it over the old
	rotateCopy   = "copytruncate" // the log is copied and then truncated; its writer goes on
)

var rotations = []string{rotateRename, rotateCreate, rotateCopy}

// rotateAfter is the size of a log in bytes at which it is rotated.
const rotateAfter = 1_000_000

// writeLogs appends lines to a log of each rotation in dir until the file stop exists. It writes with O_APPEND, because
// copytruncate makes real NULs otherwise.
func writeLogs(dir, stop string) error {
	logs := map[string]*os.File{}
	open := func(name string) (err error) {
		logs[name], err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		return err
	}
	for _, name := range rotations {
		if err := open(name); err != nil {
			return err
		}
	}
	size := 0
	for written := 0; !exists(stop); {
		var line []byte
		for _, name := range rotations {
			line = fmt.Appendf(line[:0], "%s %09d ", name, written)
			line = append(append(line, bytes.Repeat([]byte("x"), 1+written%700)...), '\n')
			if _, err := logs[name].Write(line); err != nil {
				return err
			}
		}
		written += len(line)
		if size += len(line); size < rotateAfter {
			time.Sleep(time.Millisecond) // a reader that keeps attributes for seconds must see each file
			continue
		}
		size = 0
		for _, name := range rotations {
			if err := rotate(dir, name); err != nil {
				return err
			}
			if name != rotateCopy {
				logs[name].Close()
				if err := open(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func rotate(dir, name string) error {
	path := filepath.Join(dir, name)
	old := path + ".1"
	switch name {
	case rotateRename:
		return os.Rename(path, old)
	case rotateCreate:
		if err := os.WriteFile(path+".new", nil, 0o644); err != nil {
			return err
		}
		_ = os.Remove(old)
		if err := os.Link(path, old); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	default:
		in, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(old, in, 0o644); err != nil {
			return err
		}
		return os.Truncate(path, 0)
	}
}

// followLogs follows the logs of writeLogs in each folder as tail -F does, until it has read total bytes of each, and
// fails if it reads a byte that nothing wrote. It prints how much it read.
func followLogs(total int, dirs []string) error {
	var followers sync.WaitGroup
	failures := make(chan error, len(dirs)*len(rotations))
	for _, dir := range dirs {
		for _, name := range rotations {
			followers.Go(func() {
				n, files, truncated, err := follow(dir, name, total)
				fmt.Printf("%s of %s: %d bytes of %d files; %d reads beside a truncation\n", name, dir, n, files, truncated)
				if err != nil {
					failures <- fmt.Errorf("%s of %s: %w", name, dir, err)
				}
			})
		}
	}
	followers.Wait()
	close(failures)
	return <-failures
}

// follow returns the numbers of bytes and of files. truncated counts reads of version 4 that had NULs up to their end
// because the file was truncated between the client's GETATTR and its READ: Linux fills what READ does not return, up to
// the size that it knows, also with Linux's own server. A reply to READ of version 3 has the new size.
func follow(dir, name string, total int) (n, files, truncated int, err error) {
	version4 := strings.Contains(filepath.Base(dir), "-4")
	path := filepath.Join(dir, name)
	var f *os.File
	var ino uint64
	offset := int64(0)
	buf := make([]byte, 64<<10)
	for {
		var is unix.Stat_t
		if err := unix.Stat(path, &is); err == nil && (f == nil || is.Ino != ino) {
			next, err := os.Open(path)
			if err == nil {
				if f != nil {
					f.Close()
				}
				var st unix.Stat_t
				if err := unix.Fstat(int(next.Fd()), &st); err != nil {
					return n, files, truncated, err
				}
				f, ino, offset = next, st.Ino, 0
				files++
			}
		}
		for f != nil {
			info, err := f.Stat()
			if err != nil && !errors.Is(err, syscall.ESTALE) {
				return n, files, truncated, err
			}
			if err == nil && info.Size() < offset { // it was truncated
				offset, files = 0, files+1
			}
			got, err := f.ReadAt(buf, offset)
			if err != nil && err != io.EOF && !errors.Is(err, syscall.ESTALE) {
				return n, files, truncated, err
			}
			if at := bytes.IndexByte(buf[:got], 0); at >= 0 && name == rotateCopy && version4 && len(bytes.Trim(buf[at:got], "\x00")) == 0 {
				offset, truncated = 0, truncated+1
				break
			} else if at >= 0 {
				return n, files, truncated, fmt.Errorf("a NUL at offset %d, %d of the %d bytes from %d on", offset+int64(at), bytes.Count(buf[:got], []byte{0}), got, offset)
			}
			offset, n = offset+int64(got), n+got
			if got == 0 {
				break
			}
		}
		if n >= total {
			return n, files, truncated, f.Close()
		}
		time.Sleep(2 * time.Millisecond)
	}
}
