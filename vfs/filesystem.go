package vfs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"syscall"
)

// MaxHandle is the longest handle of a FileSystem, in bytes. A protocol with 64-byte handles (RFC
// 1813 §2.4) then has room for an export's identity and an authentication code.
const MaxHandle = 47

// A Handle names a file for as long as the file exists, also after a restart of the process. Two
// FileSystems may use the same Handle for different files: see Scoped. A Handle is a comparable value
// without pointers, usable as a map key. The zero Handle names nothing.
type Handle struct {
	n uint8
	b [MaxHandle]byte
}

// MakeHandle returns the handle with the given bytes, or false if b is empty or too long.
func MakeHandle(b []byte) (Handle, bool) {
	var h Handle
	if len(b) == 0 || len(b) > MaxHandle {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes returns the handle's bytes. The slice shares h's memory.
func (h *Handle) Bytes() []byte { return h.b[:h.n:h.n] }

// Append appends the handle's bytes to b.
func (h *Handle) Append(b []byte) []byte { return append(b, h.b[:h.n]...) }

// Len returns the handle's length in bytes.
func (h *Handle) Len() int { return int(h.n) }

// IsZero reports whether h names nothing.
func (h Handle) IsZero() bool { return h.n == 0 }

// String returns the handle in hexadecimal, for logs and tests.
func (h Handle) String() string { return hex.EncodeToString(h.b[:h.n]) }

// CheckName checks that name can be one component of a path. It returns EINVAL if name is empty
// or contains '/' or NUL, and ENAMETOOLONG if it has more than longest bytes.
func CheckName(name []byte, longest int) error {
	switch {
	case len(name) == 0:
		return syscall.EINVAL
	case len(name) > longest:
		return syscall.ENAMETOOLONG
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	}
	return nil
}

// IsDot reports whether name is "." or "..". No file can have these names.
func IsDot(name []byte) bool { return string(name) == "." || string(name) == ".." }

// Errors that POSIX has no number for. Everything else is a syscall.Errno.
var (
	// ErrWouldBlock: with Op.Try, the method could not answer without blocking, and did nothing.
	// The same call without Try will do the work.
	ErrWouldBlock = errors.New("vfs: would block")
	// ErrBadHandle: the bytes were never a handle here. ESTALE: they were that of a removed file.
	ErrBadHandle = errors.New("vfs: not a handle")
	// ErrNotSync: SetAttr's guard is not the object's ctime (RFC 1813 §3.3.2).
	ErrNotSync = errors.New("vfs: object changed meanwhile")
	// ErrBadCookie: the cookie is not a position in this directory.
	ErrBadCookie = errors.New("vfs: bad directory cookie")
	// ErrDelay: the client shall try again later (RFC 1813: NFS3ERR_JUKEBOX).
	ErrDelay = errors.New("vfs: try again later")
	// ErrNotSupported: the file system does not have this operation.
	ErrNotSupported = errors.New("vfs: not supported")
)

// A Cred is the identity of a caller, after squashing. The file system checks its permissions.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // supplementary, at most 65536, in any order
}

// Op holds the circumstances of one call of a FileSystem. A method keeps it only until it returns.
type Op struct {
	// Cred is never nil.
	Cred *Cred
	// If Try is set, the method answers without blocking, or does nothing and returns
	// ErrWouldBlock. It may return ErrWouldBlock even if it could answer.
	Try bool
	// If Async is set, changes of names and attributes need not be durable when the method returns.
	// Written data must be as stable as promised even so (Stability).
	Async bool
	// Want is the set of attributes to fill in beyond those that are always filled in.
	Want Want
}

// Access is a set of rights, as bits.
type Access uint32

// Rights, as NFSv3 has them (RFC 1813 §3.3.4).
const (
	AccessRead Access = 1 << iota
	AccessLookup
	AccessModify
	AccessExtend
	AccessDelete
	AccessExecute
	// Rights to extended attributes (RFC 8276 §8.5), which need a FileSystem with Xattrs.
	AccessXattrRead
	AccessXattrWrite
	AccessXattrList
)

// Stability is the degree to which written data is safe.
type Stability uint8

// Levels (RFC 1813 §3.3.7). Higher numbers promise more.
const (
	Unstable Stability = iota
	DataSync           // data, and the metadata needed to read it, on stable storage
	FileSync           // data and all attributes on stable storage
)

// CreateMode decides how Create treats a name that exists.
type CreateMode uint8

// Modes of Create (RFC 1813 §3.3.8).
const (
	// Unchecked: use the existing file. Create then applies only the size of Attr: size 0
	// truncates the file; without a size the content stays.
	Unchecked CreateMode = iota
	// Guarded: fail with EEXIST.
	Guarded
	// Exclusive: fail with EEXIST, unless a Create with the same Verifier made the file; then
	// succeed again, even if the process restarted in between. Attr is applied (RFC 8881
	// §18.16.3, EXCLUSIVE4_1) except the times, which may hold the Verifier, and a size other
	// than 0. In NFSv3 Attr is empty here.
	Exclusive
)

// CreateHow holds the mode, attributes and verifier of a Create.
type CreateHow struct {
	Mode     CreateMode
	Attr     SetAttr
	Verifier [8]byte
}

// A DirEntry is one name in a directory. Name is valid only until emit returns.
type DirEntry struct {
	Name   []byte
	FileID uint64
	// Cookie is the position after this entry, where a ReadDir with it starts; never 0.
	Cookie uint64
	// Handle and Attr are set if the caller asked for them and they are available.
	Handle  Handle
	Attr    Attr
	HasAttr bool
}

// Object is the file that a lookup or a creation returns.
type Object struct {
	Handle  Handle
	Attr    Attr
	HasAttr bool
	// Created: this Create made the file, or repeats the Exclusive Create that made it.
	Created bool
}

// A FileSystem is a file system that an export serves. Every method may be called from any number
// of goroutines at once, also on the same file; the implementation synchronizes them. Names are
// single components: not empty, without '/' and NUL, not longer than Info.MaxName (else EINVAL or
// ENAMETOOLONG). Lookup accepts "." and ".."; methods that make or remove a name refuse them with
// EINVAL or EEXIST. ".." of the root is the root.
//
// The file system checks the rights of op.Cred, with two additional rules of NFS (RFC 1813 §4.4): a
// file's owner may read and write its data whatever its mode, and execute permission suffices for
// reading. Access does not apply these two rules.
//
// Methods that change names or attributes return when the change is as durable as the file system
// was configured to make it, unless op.Async is set.
type FileSystem interface {
	// Root returns the handle of the root directory.
	Root() Handle
	// Lane returns a key for the storage behind the file system, which may stall as a whole.
	// Usually each mounted file system has its own key. The caller limits the number of waiting
	// calls for each key separately. The key is comparable and never nil.
	Lane() any
	// Info and Usage describe the file system that holds h.
	Info(op *Op, h Handle) (Info, error)
	Usage(op *Op, h Handle) (Usage, error)

	GetAttr(op *Op, h Handle, a *Attr) error
	// SetAttr applies s. If guard is not nil and differs from the ctime, it fails with ErrNotSync. It
	// checks permission for all of s first, so a missing permission leaves everything unchanged.
	SetAttr(op *Op, h Handle, s *SetAttr, guard *Time) (Change, error)
	// Access returns the subset of want that op.Cred has, and stores the attributes of h in a.
	Access(op *Op, h Handle, want Access, a *Attr) (Access, error)
	// Lookup finds name in dir. It stores dir's attributes in dirAttr, also if it fails with ENOENT.
	Lookup(op *Op, dir Handle, name []byte, dirAttr *Attr) (Object, error)
	// ReadLink writes the symlink's text to buf and returns its length. If buf is too short, it
	// fails with ENAMETOOLONG. It stores the attributes of h in a.
	ReadLink(op *Op, h Handle, buf []byte, a *Attr) (int, error)

	// Read fills buf from offset, up to the end of the file, and stores the attributes of h in a. eof is
	// true if the bytes read end at a.Size, or offset is at or beyond it. The result describes one state
	// of the file even if the file changes meanwhile: no byte read lies beyond a.Size, eof is false if
	// a.Size is larger, and the bytes are not older than a.Change. Without eof, Read returns at least one
	// byte, unless buf is empty. A file that is cut during every try: ErrDelay.
	Read(op *Op, h Handle, offset uint64, buf []byte, a *Attr) (n int, eof bool, err error)
	// Write stores the pieces of data in order at offset, and makes them at least as stable as the
	// argument stable demands. It returns the number of bytes stored and how stable they are. An error
	// after some bytes were stored is left to the next call.
	Write(op *Op, h Handle, offset uint64, data [][]byte, stable Stability) (n int, done Stability, ch Change, err error)
	// Commit puts the data written to the range (count 0: to the end) on stable storage. If
	// op.Cred's user has the file open for writing (see Opener), Commit does not check the file's
	// mode.
	Commit(op *Op, h Handle, offset uint64, count uint32) (Change, error)
	// Verifier identifies one instance of the file system. It changes when unstable data may have
	// been lost: at a restart, and at a failed sync, before a caller learns of that failure.
	Verifier() [8]byte

	// Create makes a regular file, or uses an existing one: see CreateMode.
	Create(op *Op, dir Handle, name []byte, how *CreateHow) (Object, Change, error)
	Mkdir(op *Op, dir Handle, name []byte, s *SetAttr) (Object, Change, error)
	Symlink(op *Op, dir Handle, name, text []byte, s *SetAttr) (Object, Change, error)
	// Mknod makes a device, socket or FIFO. EINVAL: a device cannot have such numbers.
	Mknod(op *Op, dir Handle, name []byte, t Type, s *SetAttr, major, minor uint32) (Object, Change, error)
	// Remove removes any object but a directory; Rmdir removes an empty directory. EBUSY (also
	// from Rename): the machine itself uses the name, for example as a mount point, and waiting
	// does not help. For a temporary obstacle the error is ErrDelay.
	Remove(op *Op, dir Handle, name []byte) (Change, error)
	Rmdir(op *Op, dir Handle, name []byte) (Change, error)
	// Rename moves a name. The results from and to are the changes of the two directories.
	Rename(op *Op, fromDir Handle, fromName []byte, toDir Handle, toName []byte) (from, to Change, err error)
	// Link gives the file h another name, which is name in dir. It stores the attributes of h in a.
	Link(op *Op, h, dir Handle, name []byte, a *Attr) (Change, error)

	// ReadDir calls emit for each entry of dir after cookie (0: from the start, "." and ".."
	// included), until emit returns false or the directory ends. A listing shows each entry that
	// exists during all of it exactly once, even if other entries are added or removed meanwhile.
	// If plus is set, entries have Handle and Attr. ReadDir stores the directory's attributes in
	// dirAttr. eof is true if emit accepted every entry up to the last.
	ReadDir(op *Op, dir Handle, cookie uint64, plus bool, dirAttr *Attr, emit func(e *DirEntry) bool) (eof bool, err error)

	// Close releases the resources of the file system; data acknowledged as stable is safe. The
	// caller calls no other method afterwards.
	Close() error
}

// A Wrapper is a FileSystem that passes calls on to another one, except those that it changes.
type Wrapper interface {
	FileSystem
	// Unwrap returns the wrapped file system.
	Unwrap() FileSystem
}

// As finds the optional interface T of fs, or of the nearest wrapped FileSystem that implements it;
// otherwise ok is false. A wrapper that wants to change T's methods has to implement T itself, because
// calls through T bypass every wrapper that does not.
func As[T any](fs FileSystem) (t T, ok bool) {
	for {
		if t, ok = fs.(T); ok {
			return t, true
		}
		w, wraps := fs.(Wrapper)
		if !wraps {
			return t, false
		}
		fs = w.Unwrap()
	}
}
