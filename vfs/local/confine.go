package local

import (
	"bytes"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file checks that directories lie below the root. The check is needed if the mount shows
// more than the served tree. A program may move a directory out of the tree while clients have its
// handle, and the kernel opens a handle wherever the directory is.
//
// A directory that was found by a name in its parent lies below the root if the parent does.
// FS.below checks any other directory. Each directory in use is checked again if FS.moves changes:
//
//   - The sweeper increments FS.moves every 5 seconds, because a local program may have moved a
//     directory.
//   - A rename through another FS of the same file system increments it at once. A rename
//     through the FS itself does not: both of its directories lie below the root.
//
// The check costs about six system calls, however deep the tree is. Its result holds for one
// moment only, because other programs may move directories at any time.

// confine returns nil if the directory n lies below the root. If op.Try is set, it checks nothing
// and returns ErrWouldBlock. The caller has a reference to n.
func (fs *FS) confine(op *vfs.Op, n *node) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	moves := fs.moves.Load()
	var st unix.Stat_t
	err := sysFstat(n.fd, &st)
	if err == nil {
		err = fs.below(n.fd, &st)
	}
	if err == syscall.EACCES {
		// The daemon may not look up ".." in n. So it lacks CAP_DAC_READ_SEARCH, and the index found n
		// by a path from the root. Ask the index to find it again.
		var fd int
		if fd, err = fs.resolver.Open(n.handle); err == nil {
			unix.Close(fd)
		}
	}
	if err == nil {
		n.confinedAt.Store(moves)
	}
	return err
}

// below returns nil if dir, whose attributes are st, is the root or lies below it, and otherwise ESTALE.
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
	if err = sysFstat(up, &upStat); err == nil && !fs.isRoot(&upStat) {
		if h, err = fs.handles.identify(up, &upStat); err == nil {
			err = fs.knownBelow(up, h, moves)
		}
	}
	if err != nil || h.IsZero() {
		unix.Close(up)
		return err
	}
	// Keep the parent in the cache, for knownBelow when another directory in it is checked.
	p := fs.keepNode(up, &upStat, h, nil)
	p.confinedAt.Store(moves)
	p.put()
	return nil
}

// knownBelow returns nil if the directory dir, whose handle is h, lies below the root. If the cache
// has a node of dir, and the node was checked when FS.moves had the value of the last argument,
// that check is enough. Otherwise knownBelow calls climb.
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

// climb tries again if the directory was moved meanwhile; maxMoves is the number of its tries.
const maxMoves = 8

// climb checks that dir lies below the root. It computes by how many levels dir is deeper than the
// root, and goes up that many levels from dir. If it arrives at the root, dir lies below it, even
// if the computed depths are out of date. ESTALE: dir does not lie below the root. ErrDelay: dir
// was moved during each of the tries.
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
				continue // dir may have moved meanwhile: try again; if it did not, the next try returns ESTALE
			}
			return err
		}
		var st unix.Stat_t
		err = sysFstat(at, &st)
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

// notAbove converts the error of a call that went up from a directory. EXDEV and ENOENT mean that
// the way up left the mount, or the visible part of the mount. Then the directory does not lie
// below the root, and notAbove returns ESTALE.
func notAbove(err error) error {
	if err == syscall.EXDEV || err == syscall.ENOENT {
		return syscall.ESTALE
	}
	return err
}

// If depth has gone up more than maxDepth levels, it returns ESTALE.
const maxDepth = 4096

// depth returns the number of levels of the directory dir below the top of its mount, or of the
// part that the process sees. It counts the components of the path that the kernel shows in
// /proc. If that path is longer than PATH_MAX, depth uses the path of a directory further up, and
// adds the number of levels up to it.
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
				// Going up from the top stays at the top. So there may be fewer levels above the present
				// directory (at) than the number in step.
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

// openAbove opens the directory that is the given number of levels above dir.
func openAbove(dir, levels int) (int, error) {
	at, err := sysOpenParent(dir, min(levels, maxClimb))
	for levels -= maxClimb; levels > 0 && err == nil; levels -= maxClimb {
		last := at
		at, err = sysOpenParent(last, min(levels, maxClimb))
		unix.Close(last)
	}
	return at, err
}

// pathOf writes the path of the directory dir, as programs of this machine see it, to buf and
// returns its length. ENAMETOOLONG: the path is longer than PATH_MAX.
func (fs *FS) pathOf(dir int, buf *[unix.PathMax]byte) (int, error) {
	return sysReadlinkat(fs.proc, strconv.Itoa(dir), buf[:])
}

var _ vfs.Placed = (*FS)(nil)

// Place implements vfs.Placed.
func (fs *FS) Place(op *vfs.Op, dir vfs.Handle) (mount uint64, path string, err error) {
	d, err := fs.dir(op, dir)
	if err != nil {
		return 0, "", err
	}
	defer fs.giveBack(op, d)
	var buf [unix.PathMax]byte
	n, err := fs.pathOf(d.fd, &buf)
	if err != nil {
		return 0, "", err
	}
	if path = string(buf[:n]); !strings.HasPrefix(path, "/") {
		return 0, "", syscall.ENOENT // no path of this process leads to the mount
	}
	return fs.mountID, path, nil
}
