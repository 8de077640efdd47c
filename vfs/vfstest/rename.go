package vfstest

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var renameTests = []Test{
	{"rename/over everything", testRenameMatrix},
	{"rename/between directories", testRenameBetween},
	{"rename/into itself", testRenameIntoItself},
	{"rename/two names of one file", testRenameSameFile},
	{"rename/names", testRenameNames},
	{"rename/directories of others", testRenameForeign},
	{"remove/kinds", testRemove},
	{"remove/names", testRemoveNames},
}

// Kinds of objects that user.make makes. unreachable is the text of the symlinks that it makes.
const (
	nothing     = "nothing"
	aFile       = "file"
	aLink       = "symlink"
	anEmptyDir  = "empty directory"
	aFilledDir  = "filled directory"
	unreachable = "text"
)

func (u *user) make(dir vfs.Handle, name, kind string) vfs.Handle {
	u.x.Helper()
	switch kind {
	case aFile:
		return u.create(dir, name, 0o644)
	case aLink:
		return u.symlink(dir, name, unreachable)
	case anEmptyDir:
		return u.mkdir(dir, name, 0o755)
	case aFilledDir:
		h := u.mkdir(dir, name, 0o755)
		u.create(h, "inside", 0o644)
		return h
	}
	return vfs.Handle{}
}

func isDir(kind string) bool { return kind == anEmptyDir || kind == aFilledDir }

func testRenameMatrix(x *fixture) {
	u := x.self
	kinds := []string{aFile, anEmptyDir, aFilledDir}
	if x.info.Symlinks {
		kinds = append(kinds, aLink)
	}
	from, to := u.mkdir(x.dir, "from", 0o755), u.mkdir(x.dir, "to", 0o755)
	for i, dst := range []vfs.Handle{from, to} {
		for _, source := range kinds {
			for _, target := range append([]string{nothing}, kinds...) {
				a, b := fmt.Sprint("a ", source, target, i), fmt.Sprint("b ", source, target, i)
				what := fmt.Sprintf("Rename of %s over %s", source, target)
				h, old := u.make(from, a, source), u.make(dst, b, target)
				var want []error
				switch {
				case target == nothing:
				case isDir(source) && !isDir(target):
					want = []error{syscall.ENOTDIR}
				case !isDir(source) && isDir(target):
					want = []error{syscall.EISDIR}
				case target == aFilledDir:
					want = []error{syscall.ENOTEMPTY, syscall.EEXIST}
				}
				err := u.rename(from, a, dst, b)
				if want != nil {
					x.is(err, what, want...)
					if u.lookup(from, a).Handle != h || u.lookup(dst, b).Handle != old {
						x.Errorf("%s, which failed, changed something", what)
					}
					continue
				}
				x.is(err, what, nil)
				if _, err := u.find(from, a); err == nil {
					x.Errorf("%s left the old name", what)
				}
				if got := u.lookup(dst, b).Handle; got != h {
					x.Errorf("%s: the new name is another file", what)
				}
				if a := u.attr(h); !isDir(source) && a.Nlink != 1 {
					x.Errorf("%s left %d links", what, a.Nlink)
				}
				if target != nothing {
					var a vfs.Attr
					x.is(x.fs.GetAttr(u.op, old, &a), "GetAttr of what was renamed over", syscall.ESTALE)
				}
			}
		}
	}
	x.is(u.rename(from, "not there", to, "x"), "Rename of nothing", syscall.ENOENT)
	f := u.create(x.dir, "file", 0o644)
	x.is(u.rename(f, "x", to, "x"), "Rename from a file", syscall.ENOTDIR)
	x.is(u.rename(x.dir, "file", f, "x"), "Rename into a file", syscall.ENOTDIR)
}

func testRenameBetween(x *fixture) {
	u := x.self
	from, to := u.mkdir(x.dir, "from", 0o755), u.mkdir(x.dir, "to", 0o755)
	moved := u.make(from, "d", aFilledDir)
	inside := u.lookup(moved, "inside").Handle
	fromLinks, toLinks := u.attr(from).Nlink, u.attr(to).Nlink
	x.ok(u.rename(from, "d", to, "e"), "Rename")
	if u.lookup(moved, "..").Handle != to {
		x.Errorf("a moved directory's .. is not where it is now")
	}
	if u.lookup(moved, "inside").Handle != inside {
		x.Errorf("what is in a moved directory has become another file")
	}
	u.content(inside, "")
	if a, b := u.attr(from).Nlink, u.attr(to).Nlink; fromLinks > 1 && (a != fromLinks-1 || b != toLinks+1) {
		x.Errorf("link counts went from %d, %d to %d, %d", fromLinks, toLinks, a, b)
	}
	if len(u.names(from)) != 0 || len(u.names(to)) != 1 {
		x.Errorf("the directories list %v and %v", u.names(from), u.names(to))
	}
}

func testRenameIntoItself(x *fixture) {
	u := x.self
	a := u.mkdir(x.dir, "a", 0o755)
	b := u.mkdir(a, "b", 0o755)
	c := u.mkdir(b, "c", 0o755)
	for _, into := range []vfs.Handle{a, b, c} {
		x.is(u.rename(x.dir, "a", into, "x"), "Rename of a directory into itself", syscall.EINVAL)
	}
	x.is(u.rename(b, "c", x.dir, "a"), "Rename over an ancestor", syscall.ENOTEMPTY, syscall.EEXIST)
	x.is(u.rename(x.dir, "a", x.dir, "a"), "Rename to itself", nil)
	if u.lookup(c, "..").Handle != b || u.lookup(x.dir, "a").Handle != a {
		x.Errorf("the tree has changed")
	}
}

func testRenameSameFile(x *fixture) {
	if !x.info.HardLinks {
		x.Skip("no hard links")
	}
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	h := u.create(x.dir, "a", 0o644)
	x.ok(u.link(h, x.dir, "b"), "Link")
	x.ok(u.link(h, d, "c"), "Link")
	for _, c := range []struct {
		what string
		from string
		to   vfs.Handle
		name string
	}{
		{"Rename over another name of the file", "a", x.dir, "b"},
		{"Rename over another name of the file elsewhere", "a", d, "c"},
		{"Rename of a file to its own name", "a", x.dir, "a"},
		{"Rename of a directory to its own name", "d", x.dir, "d"},
	} {
		here, there, file := x.around(x.dir), x.around(c.to), x.around(h)
		from, to, err := x.fs.Rename(u.op, x.dir, []byte(c.from), c.to, []byte(c.name))
		x.is(err, c.what, nil)
		here.check(c.what, from, false)
		there.check(c.what, to, false)
		file.check(c.what, vfs.Change{}, false)
	}
	if a := u.attr(h); a.Nlink != 3 {
		x.Errorf("%d links are left of 3", a.Nlink)
	}
	u.lookup(x.dir, "a")
	u.lookup(x.dir, "b")
	u.lookup(d, "c")
}

func testRenameNames(x *fixture) {
	u := x.self
	u.create(x.dir, "f", 0o644)
	d := u.mkdir(x.dir, "d", 0o755)
	for _, n := range append([]string{".", ".."}, badNames...) {
		x.is(u.rename(d, n, x.dir, "x"), "Rename of "+n, syscall.EINVAL, syscall.EEXIST)
		x.is(u.rename(x.dir, "f", d, n), "Rename to "+n, syscall.EINVAL, syscall.EEXIST)
	}
	long := strings.Repeat("n", int(x.info.MaxName)+1)
	x.is(u.rename(x.dir, "f", d, long), "Rename to a long name", syscall.ENAMETOOLONG)
	x.is(u.rename(x.dir, long, d, "x"), "Rename of a long name", syscall.ENAMETOOLONG)
	u.lookup(x.dir, "f")
}

// Moving a directory to another one needs write permission on the moved directory, because its
// ".." changes.
func testRenameForeign(x *fixture) {
	x.users()
	bob := x.user(bobID, guestsID)
	from, to := x.self.mkdir(x.dir, "from", 0o777), x.self.mkdir(x.dir, "to", 0o777)
	for _, h := range []vfs.Handle{from, to} {
		x.ok(x.self.set(h, withMode(0o777)), "chmod")
	}
	d := x.self.mkdir(from, "d", 0o755)
	x.is(bob.rename(from, "d", to, "d"), "Rename elsewhere of a directory that one may not write", syscall.EACCES)
	x.is(bob.rename(from, "d", from, "e"), "Rename in place of a directory that one may not write", nil)
	x.ok(x.self.set(d, withMode(0o777)), "chmod")
	x.is(bob.rename(from, "e", to, "d"), "Rename elsewhere of a directory that one may write", nil)
	shut := x.self.mkdir(x.dir, "shut", 0o755)
	bob.create(to, "f", 0o644)
	x.is(bob.rename(to, "f", shut, "f"), "Rename into a directory that one may not write", syscall.EACCES)
}

func testRemove(x *fixture) {
	u := x.self
	u.make(x.dir, "file", aFile)
	empty := u.make(x.dir, "empty", anEmptyDir)
	full := u.make(x.dir, "full", aFilledDir)
	x.is(u.remove(x.dir, "empty"), "Remove of a directory", syscall.EISDIR, syscall.EPERM)
	x.is(u.rmdir(x.dir, "file"), "Rmdir of a file", syscall.ENOTDIR)
	x.is(u.rmdir(x.dir, "full"), "Rmdir of a filled directory", syscall.ENOTEMPTY, syscall.EEXIST)
	x.is(u.remove(x.dir, "missing"), "Remove of nothing", syscall.ENOENT)
	x.is(u.rmdir(x.dir, "missing"), "Rmdir of nothing", syscall.ENOENT)
	x.is(u.remove(u.lookup(x.dir, "file").Handle, "x"), "Remove from a file", syscall.ENOTDIR)
	if x.info.Symlinks {
		d := u.make(x.dir, "target", anEmptyDir)
		u.symlink(x.dir, "link", "target")
		x.is(u.rmdir(x.dir, "link"), "Rmdir of a symlink to a directory", syscall.ENOTDIR)
		x.is(u.remove(x.dir, "link"), "Remove of a symlink to a directory", nil)
		u.attr(d)
		x.ok(u.rmdir(x.dir, "target"), "Rmdir")
	}
	x.is(u.remove(x.dir, "file"), "Remove", nil)
	x.is(u.rmdir(x.dir, "empty"), "Rmdir", nil)
	x.is(u.remove(full, "inside"), "Remove", nil)
	x.is(u.rmdir(x.dir, "full"), "Rmdir", nil)
	if left := u.names(x.dir); len(left) != 0 {
		x.Errorf("left: %v", left)
	}
	var a vfs.Attr
	x.is(x.fs.GetAttr(u.op, empty, &a), "GetAttr of a removed directory", syscall.ESTALE)
}

func testRemoveNames(x *fixture) {
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	for _, n := range append([]string{".", ".."}, badNames...) {
		refused := []error{syscall.EINVAL, syscall.EEXIST}
		x.is(u.remove(d, n), "Remove of "+n, refused...)
		x.is(u.rmdir(d, n), "Rmdir of "+n, refused...)
	}
	long := strings.Repeat("n", int(x.info.MaxName)+1)
	x.is(u.remove(d, long), "Remove of a long name", syscall.ENAMETOOLONG)
	x.is(u.rmdir(d, long), "Rmdir of a long name", syscall.ENAMETOOLONG)
	u.attr(d)
}
