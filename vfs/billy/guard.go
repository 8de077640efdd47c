package billy

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
)

// A guard stands before the program's file system: what panics there is an
// EIO for the client that ran into it, and not the end of everybody's server.
// Known in the field: the memory file systems of go-billy and go-nfs panic at a
// Create in a directory that was renamed while it was empty.
type guard struct {
	gobilly.Filesystem
	report func(v any, stack []byte)
	panics *atomic.Uint64
}

// Panics is how often the file system panicked.
func (f *FS) Panics() uint64 { return f.panics.Load() }

// catch is deferred around a call of the program's code.
func (g *guard) catch(err *error) {
	v := recover()
	if v == nil {
		return
	}
	g.panics.Add(1)
	if g.report != nil {
		g.report(v, debug.Stack())
	}
	*err = fmt.Errorf("billy: the file system panicked: %w", syscall.EIO)
}

func (g *guard) OpenFile(name string, flag int, perm os.FileMode) (f gobilly.File, err error) {
	defer g.catch(&err)
	return g.Filesystem.OpenFile(name, flag, perm)
}

func (g *guard) Lstat(name string) (i os.FileInfo, err error) {
	defer g.catch(&err)
	return g.Filesystem.Lstat(name)
}

func (g *guard) ReadDir(name string) (is []os.FileInfo, err error) {
	defer g.catch(&err)
	return g.Filesystem.ReadDir(name)
}

func (g *guard) Remove(name string) (err error) {
	defer g.catch(&err)
	return g.Filesystem.Remove(name)
}

func (g *guard) Rename(from, to string) (err error) {
	defer g.catch(&err)
	return g.Filesystem.Rename(from, to)
}

func (g *guard) MkdirAll(name string, perm os.FileMode) (err error) {
	defer g.catch(&err)
	return g.Filesystem.MkdirAll(name, perm)
}

func (g *guard) Symlink(text, name string) (err error) {
	defer g.catch(&err)
	return g.Filesystem.Symlink(text, name)
}

func (g *guard) Readlink(name string) (text string, err error) {
	defer g.catch(&err)
	return g.Filesystem.Readlink(name)
}

// call guards a call that is none of gobilly.Filesystem's.
func (g *guard) call(do func() error) (err error) {
	defer g.catch(&err)
	return do()
}
