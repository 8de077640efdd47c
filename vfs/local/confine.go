package local

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file knows that a directory lies below the root, where there is more on the mount
// than the tree. Directories leave the tree while handles of them are in use, and the
// kernel finds those by their handles wherever they are.
//
// A directory that is found through its parent lies where the parent lies. Any other is
// asked about (below), and so is each directory that is in use when FS.moves has changed:
//
//   - Every few seconds the sweeper changes it, because a local program may have moved a
//     directory.
//   - A rename through another FS of the same file system changes it at once. A rename
//     through the FS itself does not: both of its directories lie below the root.
//
// The question costs some six system calls, however deep the tree is. Its answer is about
// one moment, as every answer about a tree that others change.

// confine answers nil when the directory n, which is held, lies below the root.
func (fs *FS) confine(op *vfs.Op, n *node) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	moves := fs.moves.Load()
	var st unix.Stat_t
	err := fstat(n.fd, &st)
	if err == nil {
		err = fs.below(n.fd, &st)
	}
	if err == syscall.EACCES {
		// The daemon may not look for names in n, nor for "..". It has no capability, so
		// the index found n, and finds it again on a way down.
		var fd int
		if fd, err = fs.resolver.open(n.handle); err == nil {
			unix.Close(fd)
		}
	}
	if err == nil {
		n.confinedAt.Store(moves)
	}
	return err
}

// liesIn: n was just found in d.
func (n *node) liesIn(d *node) {
	if n.typ == vfs.Directory {
		n.confinedAt.Store(d.confinedAt.Load())
	}
}

// below answers nil when the directory dir, which looks like st, is the root or lies below
// it. ESTALE: it does not.
func (fs *FS) below(dir int, st *unix.Stat_t) error {
	if fs.isRoot(st) {
		return nil
	}
	moves := fs.moves.Load()
	up, err := sysOpenParent(dir, 1)
	if err != nil {
		return notAbove(err)
	}
	var upStat unix.Stat_t
	var h vfs.Handle
	if err = fstat(up, &upStat); err == nil && !fs.isRoot(&upStat) {
		if h, err = identify(up, &upStat); err == nil {
			err = fs.knownBelow(up, h, moves)
		}
	}
	if err != nil || h.IsZero() {
		unix.Close(up)
		return err
	}
	// The parent is held, so that the question about its next child ends there.
	p := fs.nodes.adopt(up, &upStat, h)
	p.confinedAt.Store(moves)
	p.put()
	return nil
}

// knownBelow answers nil when the directory dir, whose handle is h, is known to lie below
// the root, or turns out to.
func (fs *FS) knownBelow(dir int, h vfs.Handle, moves uint32) error {
	if n := fs.nodes.cached(&h); n != nil {
		known := n.confinedAt.Load() == moves
		n.put()
		if known {
			return nil
		}
	}
	return fs.climb(dir)
}

// maxMoves is how often a directory may move while it is asked about.
const maxMoves = 8

// climb answers nil when so many steps up from dir as dir is deeper than the root end at
// the root. That they do is the proof: the depths may be those of another moment.
func (fs *FS) climb(dir int) error {
	fs.stats.climbs.Add(1)
	last := -1
	for range maxMoves {
		from, err := fs.depth(dir)
		if err != nil {
			return notAbove(err)
		}
		to, err := fs.depth(fs.root.fd)
		if err != nil {
			return err
		}
		if from-to < 0 || from-to == last {
			return syscall.ESTALE
		}
		last = from - to
		at, err := openAbove(dir, last)
		if err != nil {
			if err = notAbove(err); err == syscall.ESTALE {
				continue // it moved meanwhile, or the next turn says the same
			}
			return err
		}
		var st unix.Stat_t
		err = fstat(at, &st)
		unix.Close(at)
		if err != nil {
			return err
		}
		if fs.isRoot(&st) {
			return nil
		}
	}
	return vfs.ErrDelay
}

func (fs *FS) isRoot(st *unix.Stat_t) bool {
	return st.Ino == fs.rootStat.Ino && st.Dev == fs.rootStat.Dev
}

// notAbove is the error of a call that went up from a directory: at the end of the mount,
// or of what the mount shows, the directory is known not to lie below the root.
func notAbove(err error) error {
	if err == syscall.EXDEV || err == syscall.ENOENT {
		return syscall.ESTALE
	}
	return err
}

// maxDepth bounds how deep the tree may be.
const maxDepth = 4096

// depth says how many levels the directory dir lies below the top of its mount, or of what
// the process sees of it. The kernel tells the path of a directory that is held; where that
// is longer than PATH_MAX, it tells the path of one above.
func (fs *FS) depth(dir int) (int, error) {
	var buf [unix.PathMax]byte
	n, err := fs.pathOf(dir, &buf)
	above := 0
	at := dir
	for step := maxClimb; err == syscall.ENAMETOOLONG; {
		if above > maxDepth {
			err = syscall.ESTALE
			break
		}
		next, up := sysOpenParent(at, step)
		if up == nil {
			if n, err = fs.pathOf(next, &buf); err == nil && n == 1 {
				unix.Close(next)
				// The way up from the top of all leads to the top: it was shorter.
				up, err = syscall.EXDEV, syscall.ENAMETOOLONG
			}
		}
		if up == syscall.EXDEV && step > 1 {
			step /= 2
			continue
		}
		if up != nil {
			err = up
			break
		}
		if at != dir {
			unix.Close(at)
		}
		at = next
		above += step
	}
	if at != dir {
		unix.Close(at)
	}
	if err != nil || n == 1 {
		return above, err
	}
	return above + bytes.Count(buf[:n], []byte{'/'}), nil
}

// openAbove opens the directory that is so many levels above dir.
func openAbove(dir, levels int) (int, error) {
	at, err := sysOpenParent(dir, min(levels, maxClimb))
	for levels -= maxClimb; levels > 0 && err == nil; levels -= maxClimb {
		last := at
		at, err = sysOpenParent(last, min(levels, maxClimb))
		unix.Close(last)
	}
	return at, err
}

// pathOf is the path of the directory dir as this machine's programs find it. ENAMETOOLONG:
// it is longer than PATH_MAX.
func (fs *FS) pathOf(dir int, buf *[unix.PathMax]byte) (int, error) {
	var name [24]byte
	return sysReadlinkat(fs.proc, procName(&name, dir), buf[:])
}
