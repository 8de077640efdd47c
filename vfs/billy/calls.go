package billy

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
	nfs "github.com/willscott/go-nfs"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// errAlone is the error of a step in a read-only call that has to record something new about the
// files. FS.look then repeats the call while no other call runs.
var errAlone = errors.New("billy: the call has to be the only one")

// look runs the function do, which changes nothing in the file system, beside other such calls and reads
// of data. If do has to record something new about the files, look runs it again, beside reads of data
// only. Because do may run twice, it may set only its results.
func (f *FS) look(op *vfs.Op, do func() error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	err := f.beside(do)
	if err == errAlone {
		err = f.exclusively(do)
	}
	return err
}

// alter runs the function do, which may change the file of the handle h, while no other call runs. It
// waits for running reads of data before it locks mu.
func (f *FS) alter(op *vfs.Op, h vfs.Handle, ch *vfs.Change, do func(n *node) error) error {
	if op.Try {
		return vfs.ErrWouldBlock
	}
	if !f.opt.Concurrent {
		f.reading.Lock()
		defer f.reading.Unlock()
	}
	return f.exclusively(func() error {
		return f.within(h, ch, func(n *node) error {
			if f.readOnly {
				return syscall.EROFS
			}
			return do(n)
		})
	})
}

// beside runs the function do while other read-only calls may run. The unlocks here and in
// exclusively are deferred, because the methods of the program's file system may panic: the FS is
// then ready for the next call, and package rpc answers the call that panicked.

func (f *FS) beside(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return do()
}

// exclusively runs the function do while no other call runs, except reads of data.
func (f *FS) exclusively(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = true
	defer func() { f.alone = false }()
	return do()
}

// get returns the node of a handle and stores its attributes in a.
func (f *FS) get(h vfs.Handle, a *vfs.Attr) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	*a, err = f.stat(n)
	return n, err
}

// within runs the function do, which may change the file of a handle, and stores the attributes before
// and after in ch. If the attributes cannot be read after the change, it still counts as made.
func (f *FS) within(h vfs.Handle, ch *vfs.Change, do func(n *node) error) error {
	n, err := f.get(h, &ch.Before)
	if err != nil {
		return err
	}
	ch.HasBefore = true
	err = do(n)
	if a, failed := f.stat(n); failed == nil {
		ch.After, ch.HasAfter, ch.Atomic = a, true, f.opt.Sole
	}
	return err
}

// f.at calls the function do, which calls the program's file system, with the path of n or, if
// name is not empty, of name in the directory n. It converts the error of do to one of package
// vfs. If n was removed, the error is ESTALE.
func (f *FS) at(n *node, name string, do func(path string) error) error {
	path, err := f.components(n)
	if err != nil {
		return err
	}
	if name != "" {
		path = append(path, name)
	}
	return errno(do(f.bfs.Join(path...)))
}

// at2 calls the function do with two paths: that of n, or of name in n if name is not empty, and
// that of m, or of other in m. It converts errors like FS.at.
func (f *FS) at2(n *node, name string, m *node, other string, do func(path, path2 string) error) error {
	return f.at(n, name, func(path string) error {
		return f.at(m, other, func(path2 string) error { return do(path, path2) })
	})
}

// known maps errors of file systems and handlers to those of package vfs.
var known = []struct{ is, want error }{
	{vfs.ErrNotSupported, vfs.ErrNotSupported},
	{vfs.ErrDelay, vfs.ErrDelay},
	{vfs.ErrWouldBlock, vfs.ErrDelay},
	{gobilly.ErrReadOnly, syscall.EROFS},
	{gobilly.ErrNotSupported, vfs.ErrNotSupported},
	{gobilly.ErrCrossedBoundary, syscall.EACCES},
	{errors.ErrUnsupported, vfs.ErrNotSupported},
	{context.DeadlineExceeded, vfs.ErrDelay},
	{fs.ErrNotExist, syscall.ENOENT},
	{fs.ErrExist, syscall.EEXIST},
	{fs.ErrPermission, syscall.EACCES},
	{fs.ErrInvalid, syscall.EINVAL},
}

// statuses maps the NFS statuses whose numbers differ from the errno with the same meaning. Every
// other status up to NFS3ERR_MLINK has the number of its errno.
var statuses = map[nfs.NFSStatus]error{
	nfs.NFSStatusNameTooLong: syscall.ENAMETOOLONG,
	nfs.NFSStatusNotEmpty:    syscall.ENOTEMPTY,
	nfs.NFSStatusDQuot:       syscall.EDQUOT,
	nfs.NFSStatusStale:       syscall.ESTALE,
	nfs.NFSStatusBadHandle:   vfs.ErrBadHandle,
	nfs.NFSStatusNotSync:     vfs.ErrNotSync,
	nfs.NFSStatusBadCookie:   vfs.ErrBadCookie,
	nfs.NFSStatusNotSupp:     vfs.ErrNotSupported,
	nfs.NFSStatusJukebox:     vfs.ErrDelay,
}

// errno converts an error of the file system to one of package vfs.
func errno(err error) error {
	if err == nil {
		return nil
	}
	if n := syscall.Errno(0); errors.As(err, &n) {
		if n == syscall.EOPNOTSUPP || n == syscall.ENOSYS {
			return vfs.ErrNotSupported
		}
		return n
	}
	if s := (*nfs.NFSStatusError)(nil); errors.As(err, &s) {
		return ofStatus(s.NFSStatus)
	}
	for _, k := range known {
		if errors.Is(err, k.is) {
			return k.want
		}
	}
	return syscall.EIO
}

// ofStatus converts a status of NFSv3, or of MOUNT (the same numbers), to an error of package vfs.
func ofStatus(s nfs.NFSStatus) error {
	if err, ok := statuses[s]; ok {
		return err
	}
	if s > 0 && s <= nfs.NFSStatusMlink {
		return syscall.Errno(s)
	}
	return syscall.EIO
}
