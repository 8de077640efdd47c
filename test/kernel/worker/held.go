package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/filemark"
)

// held opens files of each file system below each of the mounts, or in MOUNT.KIND if that is mounted. It tells the test
// with the event open-ROUND, and waits for its signal ROUND. Meanwhile the test changes what is mounted on the server.
// Then held reads and writes by its descriptors. Each must lead to the file that was opened, or be stale. The file now
// in the folder shared has the kind and the volume of each file system. held writes what became of the descriptors to
// the file result.ROUND there, a line for each mount and kind.
func held(round, shared string, mounts []string) error {
	now, err := os.ReadFile(filepath.Join(shared, "now"))
	if err != nil {
		return err
	}
	var all []*heldFiles
	for _, mount := range mounts {
		for line := range strings.Lines(string(now)) {
			kind, volume, _ := strings.Cut(strings.TrimSpace(line), " ")
			h, err := hold(mount, kind, volume)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", mount, kind, err)
			}
			all = append(all, h)
		}
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for _, h := range all {
		readers.Go(func() {
			for !done.Load() {
				h.content(h.direct)
				// The reads go on for as long as the changes do. The pause leaves the processor to them.
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	fmt.Printf("::event open-%s\n", round)
	for !exists(filepath.Join(shared, "signal."+round)) {
		time.Sleep(20 * time.Millisecond)
	}
	done.Store(true)
	readers.Wait()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return err
	}
	var result strings.Builder
	var wrong []string
	for _, h := range all {
		fmt.Fprintf(&result, "%s %s %s\n", filepath.Base(h.mount), h.kind, h.check(round))
		wrong = append(wrong, h.wrong...)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return os.WriteFile(filepath.Join(shared, "result."+round), []byte(result.String()), 0o644)
}

// heldFiles are the descriptors in one file system below one mount.
type heldFiles struct {
	mount, kind, volume string
	root                string // its path
	direct              *heldFile
	files               []*heldFile
	written             *heldFile
	dir                 *os.File

	mu    sync.Mutex
	wrong []string
}

// A heldFile is an open file and its content when it was opened.
type heldFile struct {
	path string
	f    *os.File
	was  []byte
}

func hold(mount, kind, volume string) (*heldFiles, error) {
	h := &heldFiles{mount: mount, kind: kind, volume: volume, root: filepath.Join(mount, kind)}
	if alone := mount + "." + kind; exists(alone) {
		h.root = alone
	}
	written := "written-" + filepath.Base(mount)
	for _, path := range []string{"read", "d/e/read", "removed", written} {
		flags := os.O_RDONLY
		switch path {
		case "read":
			flags |= unix.O_DIRECT
		case written:
			flags = os.O_RDWR
		}
		f, was, err := h.open(path, flags)
		if err != nil {
			return nil, err
		}
		h.files = append(h.files, &heldFile{path, f, was})
	}
	h.direct, h.written = h.files[0], h.files[3]
	var err error
	h.dir, err = os.Open(filepath.Join(h.root, "d"))
	return h, err
}

// open opens a file by its path, as soon as the path leads to the volume that is mounted now.
func (h *heldFiles) open(path string, flags int) (*os.File, []byte, error) {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var f *os.File
		if f, err = os.OpenFile(filepath.Join(h.root, path), flags, 0); err != nil {
			continue
		}
		was := make([]byte, filemark.Size)
		var n int
		n, err = f.ReadAt(was, 0)
		if err == nil {
			if err = filemark.Check(was, h.kind, h.volume, path); err == nil {
				return f, was, nil
			}
		} else {
			err = fmt.Errorf("%d bytes: %w", n, err)
		}
		f.Close()
	}
	return nil, nil, fmt.Errorf("%s: %w", path, err)
}

// content reads a file by its descriptor, and returns r if that is right, or what stale returns.
func (h *heldFiles) content(f *heldFile) string {
	got := make([]byte, filemark.Size)
	n, err := f.f.ReadAt(got, 0)
	switch {
	case err != nil:
		return h.stale(f.path, err)
	case !bytes.Equal(got[:n], f.was):
		return h.isWrong("%s has %q, had %q", f.path, got[:n], f.was)
	}
	return "r"
}

// stale returns s if the error says that the file is not known any more, and l if it says that the open was lost.
func (h *heldFiles) stale(path string, err error) string {
	// Version 4 first tries to open the file again; when that fails, Linux says that the descriptor is bad.
	if errors.Is(err, syscall.ESTALE) || errors.Is(err, syscall.EBADF) {
		return "s"
	}
	// When the server was started again and the file could not be claimed, Linux says EIO from then on.
	if errors.Is(err, syscall.EIO) && strings.Contains(filepath.Base(h.mount), "-4") {
		return "l"
	}
	return h.isWrong("%s: %v", path, err)
}

func (h *heldFiles) isWrong(format string, args ...any) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) < 5 {
		h.wrong = append(h.wrong, fmt.Sprintf("%s, %s of %s: ", h.mount, h.volume, h.kind)+fmt.Sprintf(format, args...))
	}
	return "w"
}

// check reads and writes by all descriptors and closes them. It returns a letter for each use: the files, the file that
// is opened below its directory, and the write.
func (h *heldFiles) check(round string) (all string) {
	for _, f := range h.files {
		all += h.content(f)
	}
	inside, err := unix.Openat(int(h.dir.Fd()), "e/read", unix.O_RDONLY|unix.O_DIRECT, 0)
	got := make([]byte, filemark.Size)
	if err == nil {
		_, err = unix.Pread(inside, got, 0)
		unix.Close(inside)
	}
	if err != nil {
		all += h.stale("d/e/read below its directory", err)
	} else if err := filemark.Check(got, h.kind, h.volume, "d/e/read"); err != nil {
		all += h.isWrong("below its directory: %v", err)
	} else {
		all += "r"
	}
	w := h.written
	next := filemark.Make(h.kind, h.volume, w.path, round)
	_, err = w.f.WriteAt(next, 0)
	err = errors.Join(err, w.f.Sync())
	if err == nil {
		w.was = next
		all += h.content(w)
	} else {
		all += h.stale(w.path, err)
	}
	h.dir.Close()
	for _, f := range h.files {
		f.f.Close() // Sync has told the error of a write
	}
	return all
}
