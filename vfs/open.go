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
	// OpenFiles returns the number of open files and its upper limit. A file that is open several
	// times counts once for OpenRead and once for OpenWrite; a file with claims counts once more.
	// OpenFiles never waits.
	OpenFiles() (open, most int)
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
	// Close never waits. A method that is already running finishes normally. A second Close does
	// nothing.
	Close()
}
