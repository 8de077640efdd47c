package durable

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A model is a disk of one directory. What was written or renamed lasts only after a Sync: of the file
// for its content, of the directory for its names. Its n-th system call fails.
type model struct {
	files       []*modelFile
	now, synced map[string]*modelFile // by name: before a crash, and after it
	fails       int                   // the number of the call that fails, from 1; 0 if none does
	err         error
	calls       []string
	opened      int // handles that are not closed
}

type modelFile struct{ content, synced string }

type modelHandle struct {
	m    *model
	name string
	file *modelFile // nil for the directory
}

func newModel(file, content string) *model {
	f := &modelFile{content, content}
	return &model{now: map[string]*modelFile{file: f}, synced: map[string]*modelFile{file: f}}
}

// call counts a system call, and returns its error.
func (m *model) call(what string) error {
	m.calls = append(m.calls, what)
	if len(m.calls) == m.fails {
		return m.err
	}
	return nil
}

func (m *model) create(dir, pattern string) (handle, error) {
	if err := m.call("create"); err != nil {
		return nil, err
	}
	f := new(modelFile)
	name := filepath.Join(dir, fmt.Sprint(pattern, len(m.files)))
	m.files, m.now[name] = append(m.files, f), f
	m.opened++
	return &modelHandle{m, name, f}, nil
}

func (m *model) rename(from, to string) error {
	if err := m.call("rename"); err != nil {
		return err
	}
	m.now[to] = m.now[from]
	delete(m.now, from)
	return nil
}

func (m *model) remove(name string) error {
	if m.now[name] == nil {
		return os.ErrNotExist
	}
	if err := m.call("remove"); err != nil {
		return err
	}
	delete(m.now, name)
	return nil
}

func (m *model) directory(dir string) (handle, error) {
	if err := m.call("open directory"); err != nil {
		return nil, err
	}
	m.opened++
	return &modelHandle{m, dir, nil}, nil
}

func (h *modelHandle) Name() string { return h.name }

func (h *modelHandle) Write(b []byte) (int, error) {
	if err := h.m.call("write"); err != nil {
		h.file.content += string(b[:len(b)/2]) // as a full disk does
		return len(b) / 2, err
	}
	h.file.content += string(b)
	return len(b), nil
}

func (h *modelHandle) Sync() error {
	if h.file == nil {
		if err := h.m.call("sync directory"); err != nil {
			return err
		}
		h.m.synced = maps.Clone(h.m.now)
		return nil
	}
	if err := h.m.call("sync"); err != nil {
		return err
	}
	h.file.synced = h.file.content
	return nil
}

func (h *modelHandle) Close() error {
	h.m.opened--
	if h.file == nil {
		return nil
	}
	return h.m.call("close")
}

// crashes returns the contents that the file may have after a crash now: its name leads to the file of
// the last sync of the directory or to the present one, and of a content any part may be missing that was
// not synced.
func (m *model) crashes(file string) map[string]bool {
	all := make(map[string]bool)
	for _, f := range []*modelFile{m.synced[file], m.now[file]} {
		all[f.synced] = true
		for n := len(f.synced); n <= len(f.content); n++ {
			all[f.content[:n]] = true
		}
	}
	return all
}

// crashing is a model that is looked at as after a crash, before each of its system calls.
type crashing struct {
	*model
	look func()
}

func (c crashing) create(dir, pattern string) (handle, error) {
	c.look()
	h, err := c.model.create(dir, pattern)
	if err != nil {
		return nil, err
	}
	return crashingHandle{h, c.look}, nil
}
func (c crashing) rename(from, to string) error { c.look(); return c.model.rename(from, to) }
func (c crashing) remove(name string) error     { c.look(); return c.model.remove(name) }
func (c crashing) open(dir string) (handle, error) {
	c.look()
	h, err := c.model.directory(dir)
	if err != nil {
		return nil, err
	}
	return crashingHandle{h, c.look}, nil
}

type crashingHandle struct {
	handle
	look func()
}

func (h crashingHandle) Write(b []byte) (int, error) { h.look(); return h.handle.Write(b) }
func (h crashingHandle) Sync() error                 { h.look(); return h.handle.Sync() }
func (h crashingHandle) Close() error                { h.look(); return h.handle.Close() }

// Whatever system call fails, and whenever the machine crashes, the file has the old content or the new
// one, whole. If Write returns no error, it has the new one; an error of a call reaches the caller. No
// other file is left, and nothing open.
func TestFileIsWholeAfterAnyFault(t *testing.T) {
	const file, old, new = "/d/f", "the old content", "what is new"
	for n, fails := 0, true; fails; n++ {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
			m := newModel(file, old)
			m.fails, m.err = n, err
			look := func() {
				for content := range m.crashes(file) {
					if content != old && content != new {
						t.Errorf("%v after %q: after a crash the file would have %q", err, m.calls, content)
					}
				}
			}
			got := write(crashing{m, look}, file, []byte(new))
			look()
			fails = n == 0 || n <= len(m.calls)
			if fails && n > 0 && m.calls[n-1] != "remove" != errors.Is(got, err) {
				t.Errorf("%v of %q: Write returns %v", err, m.calls[n-1], got)
			}
			if now := m.crashes(file); got == nil && (len(now) != 1 || !now[new]) {
				t.Errorf("Write returns no error, and after a crash the file has one of %v; calls %q", now, m.calls)
			}
			if len(m.now) != 1 && m.calls[len(m.calls)-1] != "remove" || m.opened != 0 {
				t.Errorf("%v in %q: %d files are left, and %d handles", err, m.calls, len(m.now), m.opened)
			}
		}
	}
}

// On a full disk Write says so, and the old file stays. When there is room again, Write succeeds.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("durable-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("tmpfs cannot be mounted here:", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	file := filepath.Join(dir, "f")
	content := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	is := func(what string, size int) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil || len(b) != size {
			t.Errorf("%s: %d bytes of %d, %v", what, len(b), size, err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("%s: %d files, %v", what, len(all), err)
		}
	}
	if err := Write(file, content(30_000)); err != nil {
		t.Fatal(err)
	}
	is("the first", 30_000)
	if err := Write(file, content(60_000)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	is("after a failure", 30_000)
	if err := Write(file, content(20_000)); err != nil {
		t.Error(err)
	}
	is("afterwards", 20_000)
	if err := Write(filepath.Join(dir, "no directory", "f"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
}
