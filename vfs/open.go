package vfs

// OpenAccess is what a File is opened for, as bits.
type OpenAccess uint8

// Bits of OpenAccess. At least one of OpenRead and OpenWrite is set.
const (
	OpenRead OpenAccess = 1 << iota
	OpenWrite
	// OpenOwner: the file's owner may, whatever the mode. It is for the call
	// that made the file, which POSIX does not judge by the mode that it gave
	// it, and for one that takes up again what was granted before.
	OpenOwner
)

// Opener is the further interface of a FileSystem that has open files, as
// POSIX and NFSv4 know them.
type Opener interface {
	// Open opens the regular file h for op.Cred. What the caller may do is
	// judged here and once: with OpenRead by permission to read or to execute
	// (a program is run by reading it), with OpenWrite by permission to write.
	// That a file's owner may read and write whatever the mode, as NFSv3 has it
	// (RFC 1813 §4.4), holds only with OpenOwner.
	//
	// EISDIR: a directory. ELOOP: a symlink. EINVAL: another kind of file, or
	// no access. EACCES, EROFS: what it is not granted. ErrDelay: more files
	// are open than the FileSystem has room for.
	Open(op *Op, h Handle, access OpenAccess) (File, error)
}

// An OpenCounter is the further interface of an Opener that has room for so many open
// files. Those who open files for others share that out among them.
type OpenCounter interface {
	// OpenFiles says how many files are open, and how many may be at most. One that is
	// open several times counts once for each of OpenRead and OpenWrite. It never
	// waits.
	OpenFiles() (open, most int)
}

// A File is an open file. While it is open, the file lives: one whose last name
// is removed is there until the last File of it is closed, for this File, and
// for every method that is given its Handle. (Link gives it no new name: ESTALE.)
// A File does not outlive the process, and it is closed before its FileSystem is.
//
// Methods may be called from any number of goroutines at once. They follow the
// contracts of the FileSystem methods of the same name, Try included, but judge
// no permission: a mode or an owner that changed since Open does not matter.
// op.Cred is the user that the change is made for, for quotas and set-id bits. EBADF: the
// File was not opened for this, or it is closed.
type File interface {
	Read(op *Op, offset uint64, buf []byte, a *Attr) (n int, eof bool, err error)
	Write(op *Op, offset uint64, data [][]byte, stable Stability) (n int, done Stability, ch Change, err error)
	// Commit needs no particular access, as fsync(2) does not.
	Commit(op *Op, offset uint64, count uint32) (Change, error)
	// SetSize cuts or extends the file, which is opened for writing.
	SetSize(op *Op, size uint64) (Change, error)
	// Close never waits. A method that was called before goes on to its end. A
	// second Close does nothing.
	Close()
}
