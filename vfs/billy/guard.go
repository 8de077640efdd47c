package billy

import (
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
)

// A guard stands before the program's file system. Its errors are the seam's,
// and where the program's code panics, the call fails with EIO and the server
// goes on. The memory file systems of go-billy and go-nfs are known to panic at
// a Create in a directory that was renamed while it was empty.
type guard struct {
	gobilly.Filesystem
	report func(v any, stack []byte)
	panics *atomic.Uint64
}

// Panics is how often the file system panicked.
func (f *FS) Panics() uint64 { return f.panics.Load() }

// translate is deferred around a call of the program's code.
func (g *guard) translate(err *error) {
	v := recover()
	if v == nil {
		*err = errno(*err)
		return
	}
	g.panics.Add(1)
	if g.report != nil {
		g.report(v, debug.Stack())
	}
	*err = syscall.EIO
}

func (g *guard) OpenFile(name string, flag int, perm os.FileMode) (f gobilly.File, err error) {
	defer g.translate(&err)
	return g.Filesystem.OpenFile(name, flag, perm)
}

func (g *guard) Lstat(name string) (i os.FileInfo, err error) {
	defer g.translate(&err)
	return g.Filesystem.Lstat(name)
}

func (g *guard) ReadDir(name string) (is []os.FileInfo, err error) {
	defer g.translate(&err)
	return g.Filesystem.ReadDir(name)
}

func (g *guard) Remove(name string) (err error) {
	defer g.translate(&err)
	return g.Filesystem.Remove(name)
}

func (g *guard) Rename(from, to string) (err error) {
	defer g.translate(&err)
	return g.Filesystem.Rename(from, to)
}

func (g *guard) MkdirAll(name string, perm os.FileMode) (err error) {
	defer g.translate(&err)
	return g.Filesystem.MkdirAll(name, perm)
}

func (g *guard) Symlink(text, name string) (err error) {
	defer g.translate(&err)
	return g.Filesystem.Symlink(text, name)
}

func (g *guard) Readlink(name string) (text string, err error) {
	defer g.translate(&err)
	return g.Filesystem.Readlink(name)
}

// call guards a call that is none of gobilly.Filesystem's.
func (g *guard) call(do func() error) (err error) {
	defer g.translate(&err)
	return do()
}
