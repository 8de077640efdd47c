package vfs

// OpenAccess is the access that a File is opened for, as bits.
type OpenAccess uint8

// Bits of OpenAccess. A caller sets OpenRead, OpenWrite or both.
const (
	OpenRead OpenAccess = 1 << iota
	OpenWrite
	// OpenOwner: the file's owner may open it whatever the mode. Three callers set it: the call
	// that made the file, because POSIX does not check the new mode against that call; a call that
	// resumes access granted earlier; and a call that accesses a file by its handle alone, as
	// NFSv3's READ and WRITE do.
	OpenOwner
)

// Opener is an optional interface of a FileSystem with open files as POSIX and NFSv4 define them.
type Opener interface {
	// Open opens the regular file h for op.Cred. Permission is checked here and never again:
	// OpenRead needs permission to read or to execute (a program is run by reading it), OpenWrite
	// permission to write. NFSv3's rule that a file's owner may read and write whatever the mode
	// (RFC 1813 §4.4) applies only with OpenOwner.
	//
	// EISDIR: a directory. ELOOP: a symlink. EINVAL: another kind of file, or access has neither
	// OpenRead nor OpenWrite. EACCES, EROFS: the access is not permitted. ErrDelay: the
	// FileSystem has no room for more open files.
	Open(op *Op, h Handle, access OpenAccess) (File, error)
}

// An OpenCounter is an optional interface of an Opener that limits the number of open files.
// Callers that open files for clients divide this limit among the clients.
type OpenCounter interface {
	// OpenFiles returns the number of open files and its upper limit, and never waits. A file counts once,
	// however often it is open, and once more if it has claims; or more often, if the FileSystem cannot
	// open it again. The limit may change: several FileSystems may share what open files need.
	OpenFiles() (open, most int)
	// OpenRefused tells that the caller of OpenFiles refused a client to open a file. It never waits.
	OpenRefused()
}

// A File is an open file. An open file stays alive: if its last name is removed, it exists until
// its last File is closed, both for the methods of File and for methods that take its Handle.
// (Link cannot give it a new name: ESTALE.) A File does not outlive the process. The caller closes
// it before the FileSystem.
//
// Methods may be called from any number of goroutines at once. They follow the contracts of the
// FileSystem methods of the same name, Try included, but check no permission: a mode or an owner
// that changed since Open does not matter. In Write and SetSize, quotas and the clearing of set-id
// bits depend on op.Cred. EBADF: the File was not opened for this access, or it is closed.
type File interface {
	Read(op *Op, offset uint64, buf []byte, a *Attr) (n int, eof bool, err error)
	Write(op *Op, offset uint64, data [][]byte, stable Stability) (n int, done Stability, ch Change, err error)
	// Commit needs no particular access, like fsync(2).
	Commit(op *Op, offset uint64, count uint32) (Change, error)
	// SetSize cuts or extends the file. The file must be open for writing.
	SetSize(op *Op, size uint64) (Change, error)
	// Close never waits, neither for a method that is running nor for the file system: what may take time,
	// Close leaves to another goroutine. A second Close does nothing.
	Close()
}

// SeekWhat is what Seek looks for: data or a hole.
type SeekWhat uint8

// The values of SeekWhat (RFC 7862 §11.11).
const (
	SeekData SeekWhat = iota
	SeekHole
)

// Sparse is an optional interface of a FileSystem that can find and make holes in files. EBADF: a File
// is not of this FileSystem, or not open for the access that the method needs. As with File's methods,
// no permission is checked, and quotas and the clearing of set-id bits depend on op.Cred. Changes are
// as durable as changes of attributes.
type Sparse interface {
	// Allocate reserves storage for a range, so that a write to it cannot run out of space. The
	// content stays. If the file was shorter, it grows to the end of the range (RFC 7862 §15.1).
	Allocate(op *Op, f File, offset, length uint64) error
	// Deallocate zeroes a range and frees the blocks within it. The size stays (RFC 7862 §15.4).
	Deallocate(op *Op, f File, offset, length uint64) error
	// Seek returns the first offset, at or after the given one, that lies in data (SeekData) or in
	// a hole (SeekHole). The range after the end of the file counts as a hole. If there is no such
	// offset before the end, eof is true and the result at is the file's size (RFC 7862 §15.11).
	// ENXIO: offset is not within the file. Reported data may be zeros; a reported hole always is.
	// Seek changes nothing that a later Seek reports. But a read may turn a reported hole into
	// reported data, and the system may turn it back, without a change of the file: ext4 and XFS report
	// the parts of a preallocated range as data whose pages are in memory.
	Seek(op *Op, f File, offset uint64, what SeekWhat) (at uint64, eof bool, err error)
}

// Copier is an optional interface of a FileSystem that copies between files itself. The source
// (the argument from) is a File of any FileSystem, open to read. The target (the argument to) is a
// File of this FileSystem, open to write. Both may be the same file if the ranges do not overlap
// (else EINVAL). EXDEV: the implementation cannot copy from the source's FileSystem. A count of 0
// means up to the end of the source.
type Copier interface {
	// CopyRange copies up to count bytes and returns how many it copied. It may copy fewer: up to
	// the end of the source, or up to a limit of its own. It returns an error only if it copied
	// nothing. The copy is as stable as after a Write with Unstable.
	CopyRange(op *Op, from File, fromOffset uint64, to File, toOffset, count uint64) (n uint64, err error)
	// CloneRange makes the target share the source's storage in the whole range, or changes
	// nothing. The clone is as durable as a change of attributes (RFC 7862 §15.13). EINVAL: the
	// range is not aligned to the file system's blocks, or reaches beyond the end of the source.
	// ErrNotSupported: the file system cannot share storage.
	CloneRange(op *Op, from File, fromOffset uint64, to File, toOffset, count uint64) error
}

// XattrMode decides what SetXattr does if the attribute exists, and if it does not.
type XattrMode uint8

// Modes of SetXattr (RFC 8276 §8.4.2).
const (
	XattrEither  XattrMode = iota
	XattrCreate            // EEXIST if it exists
	XattrReplace           // ENODATA if it does not exist
)

// MaxXattr is the maximum length of the value of an extended attribute, and the longest list of
// names, in bytes (Linux: XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MaxXattr = 64 << 10

// Xattrs is an optional interface of a FileSystem that keeps extended attributes of users
// (xattr(7)). Local programs see each name with the prefix "user."; here the names have no prefix.
// A name must not be empty or contain NUL (else EINVAL), and has at most 250 bytes (else
// ENAMETOOLONG). Only regular files and directories have such attributes. On other objects, changes
// fail with EPERM and GetXattr with ENODATA, and the list of names is empty.
//
// To get or list attributes, op.Cred needs permission to read the file's data; to change them,
// permission to write it. Only the file's mode decides that, without the additional rules of NFSv3.
// Access applies the same rules to AccessXattrRead, AccessXattrList and AccessXattrWrite.
// ErrNotSupported: the file system has no extended attributes, or not on this object.
type Xattrs interface {
	// KeepsXattrs reports whether the file system has extended attributes of users at all: if not, the
	// other methods return ErrNotSupported. The answer never changes. KeepsXattrs never waits.
	KeepsXattrs() bool
	// GetXattr writes the value to the start of buf and returns its length. ENODATA: h has no
	// attribute of this name. ERANGE: buf is too short.
	GetXattr(op *Op, h Handle, name, buf []byte) (int, error)
	// SetXattr sets an attribute of h. E2BIG: the value is longer than MaxXattr. ENOSPC: there is
	// no room for it beside the file's other attributes.
	SetXattr(op *Op, h Handle, name, value []byte, mode XattrMode) (Change, error)
	// ListXattrs writes the names to buf, each followed by a NUL, and returns the total length.
	// ERANGE: buf is too short; MaxXattr bytes are always enough. E2BIG: local programs have made
	// more attributes than can be listed.
	ListXattrs(op *Op, h Handle, buf []byte) (int, error)
	// RemoveXattr removes an attribute. ENODATA: h has no attribute of this name.
	RemoveXattr(op *Op, h Handle, name []byte) (Change, error)
}

// Shared is an optional interface of a FileSystem that shows one directory of a volume. Other
// FileSystems may show other directories of the same volume, or all of it, and so the same files.
type Shared interface {
	// Volume returns a comparable value that never changes. In two FileSystems with the same
	// Volume, a Handle names the same file.
	Volume() any
}

// A Scope identifies the set of files that the Handles of a FileSystem are taken from.
type Scope [16]byte

// Scoped is an optional interface of a FileSystem whose Handles, as bytes, may equal those of another
// FileSystem, as inode numbers do.
type Scoped interface {
	// Scope returns a value that never changes. It is the same after a restart of the process if each
	// Handle still names the same file, or none; else it is another one. A caller that keeps Handles
	// for longer than the FileSystem is open, or gives them to clients, keeps the Scope with them.
	Scope() Scope
}

// Placed is an optional interface of a FileSystem whose directories local programs reach by path.
type Placed interface {
	// Place returns a directory's mount, as an ID in mountinfo (proc(5)), and its absolute path at
	// this moment. Finding dir may block, unless op.Try is set; reading its path does not.
	Place(op *Op, dir Handle) (mount uint64, path string, err error)
}
