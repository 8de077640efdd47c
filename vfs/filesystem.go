package vfs

// A Cred is the user that a call is made for, after squashing, as the kernel would
// judge it.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // supplementary, at most 65536, in any order
}

// Op goes with every call of a FileSystem. It may be kept only until the
// method returns.
type Op struct {
	// Cred is never nil.
	Cred *Cred
	// Try: answer at once or answer ErrWouldBlock having done nothing.
	// A method without anything at hand may always answer ErrWouldBlock.
	Try bool
	// Async: what the method changes of names and attributes need not be
	// durable when it returns. What is promised about data is kept.
	Async bool
	// Want are attributes to be told beyond the usual ones.
	Want Want
}

// Access are rights that Access is asked about and answers with.
type Access uint32

// Rights, as NFSv3 has them (RFC 1813 §3.3.4).
const (
	AccessRead Access = 1 << iota
	AccessLookup
	AccessModify
	AccessExtend
	AccessDelete
	AccessExecute
	// What may be done with extended attributes (RFC 8276 §8.3). A FileSystem
	// without Xattrs never grants them.
	AccessXattrRead
	AccessXattrWrite
	AccessXattrList
)

// Stability is how safe written data is.
type Stability uint8

// Levels (RFC 1813 §3.3.7). Higher numbers promise more.
const (
	Unstable Stability = iota
	DataSync           // data, and what is needed to read it, on stable storage
	FileSync           // and all attributes
)

// CreateMode is what Create does about a name that exists.
type CreateMode uint8

// Modes of Create (RFC 1813 §3.3.8).
const (
	// Unchecked: use the file that exists. Of Attr nothing but a size is applied
	// to it then: truncated where that says 0, and with its content left alone
	// where no size is set.
	Unchecked CreateMode = iota
	// Guarded: EEXIST.
	Guarded
	// Exclusive: EEXIST, except where the file was made by a Create with the
	// same Verifier, which then succeeds again; a restart of the process in
	// between changes nothing. Attr is applied (RFC 8881 §18.16.3,
	// EXCLUSIVE4_1), except its times, in which the Verifier may be kept, and a
	// size other than 0. NFSv3 has no Attr here.
	Exclusive
)

// CreateHow is the manner of a Create.
type CreateHow struct {
	Mode     CreateMode
	Attr     SetAttr
	Verifier [8]byte
}

// A DirEntry is one name in a directory. Its Name is valid only during the call
// that hands it over.
type DirEntry struct {
	Name   []byte
	FileID uint64
	// Cookie continues after this entry. Never 0.
	Cookie uint64
	// Handle and Attr where asked for and to be had.
	Handle  Handle
	Attr    Attr
	HasAttr bool
}

// Object is what a lookup or a creation found.
type Object struct {
	Handle  Handle
	Attr    Attr
	HasAttr bool
	// Created, of Create: this call made the file, or the Exclusive one that it
	// repeats did. False: the file was there.
	Created bool
}

// A FileSystem is what an export serves. Every method may be called from any
// number of goroutines at once, on the same file too; the implementation
// orders what must be ordered. Names are single components: not empty, without
// '/' and NUL, not longer than Info.MaxName (else EINVAL or ENAMETOOLONG); "."
// and ".." are looked up, and refused with EINVAL or EEXIST where something
// would be made or removed; ".." of the root is the root.
//
// The file system judges what op.Cred may do, with two rules of
// NFS on top (RFC 1813 §4.4): a file's owner may read and write its data
// whatever its mode, and execute permission suffices for reading. The two never
// show in Access.
//
// Methods that change names or attributes return when the change is as
// durable as the file system was configured to make it, unless op.Async.
type FileSystem interface {
	// Root is the handle of the root directory.
	Root() Handle
	// Lane identifies what may stall together, a mounted file system as a
	// rule: calls that wait for it are bounded separately from all others.
	// Comparable, never nil.
	Lane() any
	// Info and Usage are about the file system that h is on.
	Info(op *Op, h Handle) (Info, error)
	Usage(op *Op, h Handle) (Usage, error)

	GetAttr(op *Op, h Handle, a *Attr) error
	// SetAttr applies s. With guard, only if the ctime is *guard, else
	// ErrNotSync. What s sets is applied together or not at all as far as
	// permission goes: permission for all of it is checked first.
	SetAttr(op *Op, h Handle, s *SetAttr, guard *Time) (Change, error)
	// Access answers which of want the caller has; a receives attributes.
	Access(op *Op, h Handle, want Access, a *Attr) (Access, error)
	// Lookup finds name in dir; dirAttr receives the directory's attributes,
	// also where the lookup fails with ENOENT.
	Lookup(op *Op, dir Handle, name []byte, dirAttr *Attr) (Object, error)
	// ReadLink writes the symlink's text to buf and returns its length;
	// ENAMETOOLONG where buf is too short. a receives attributes.
	ReadLink(op *Op, h Handle, buf []byte, a *Attr) (int, error)

	// Read fills buf from offset as far as the file reaches. eof: the file
	// ends within or right behind what was read. a receives attributes.
	Read(op *Op, h Handle, offset uint64, buf []byte, a *Attr) (n int, eof bool, err error)
	// Write stores data, pieces in order, at offset, and makes it at least
	// as stable as asked. It returns how much was stored (less than given
	// only with an error after a part was stored, then reported by the next
	// call) and how stable it is.
	Write(op *Op, h Handle, offset uint64, data [][]byte, stable Stability) (n int, done Stability, ch Change, err error)
	// Commit puts what was written to the range (count 0: to the end) on
	// stable storage. A user that has the file open for writing (Opener) may
	// do so whatever the mode.
	Commit(op *Op, h Handle, offset uint64, count uint32) (Change, error)
	// Verifier tells apart the instances of the file system between which
	// unstable data may have been lost: it changes at a restart, and when a
	// sync failed, before that failure is reported to a caller.
	Verifier() [8]byte

	// Create makes a regular file, or finds it: see CreateMode.
	Create(op *Op, dir Handle, name []byte, how *CreateHow) (Object, Change, error)
	Mkdir(op *Op, dir Handle, name []byte, s *SetAttr) (Object, Change, error)
	Symlink(op *Op, dir Handle, name, text []byte, s *SetAttr) (Object, Change, error)
	// Mknod makes a device, socket or FIFO.
	Mknod(op *Op, dir Handle, name []byte, t Type, s *SetAttr, major, minor uint32) (Object, Change, error)
	// Remove removes anything but a directory, Rmdir an empty directory. EBUSY,
	// of Rename as well: the machine itself holds the name fast (something is
	// mounted there), and waiting does not help; what passes by itself is
	// ErrDelay.
	Remove(op *Op, dir Handle, name []byte) (Change, error)
	Rmdir(op *Op, dir Handle, name []byte) (Change, error)
	// Rename moves; from and to are the changes of the two directories.
	Rename(op *Op, fromDir Handle, fromName []byte, toDir Handle, toName []byte) (from, to Change, err error)
	// Link gives h another name; a receives h's attributes.
	Link(op *Op, h, dir Handle, name []byte, a *Attr) (Change, error)

	// ReadDir calls emit for each entry of dir after cookie (0: from the
	// start, "." and ".." included) until emit returns false or the end. An
	// entry present during a whole listing is seen exactly once, whatever is
	// added and removed meanwhile. plus: with Handle and Attr. dirAttr
	// receives the directory's attributes. eof: emit saw the last entry.
	ReadDir(op *Op, dir Handle, cookie uint64, plus bool, dirAttr *Attr, emit func(e *DirEntry) bool) (eof bool, err error)

	// Close gives back what the file system holds; what was acknowledged as
	// stable is. No other method is called any more.
	Close() error
}
