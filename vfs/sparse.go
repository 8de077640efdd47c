package vfs

// SeekWhat is what Seek looks for.
type SeekWhat uint8

// What a file has (RFC 7862 §11.11).
const (
	SeekData SeekWhat = iota
	SeekHole
)

// Sparse is the further interface of a FileSystem that tells the holes of a file
// from its data, and makes them. The Files are its own, opened for what is done
// with them, else EBADF; what is said there of permission and of op.Cred holds
// here. Changes are as durable as those of attributes are.
type Sparse interface {
	// Allocate has storage for a range, which a write to it will not lack. The
	// content stays, and the file grows to the end of the range if it was
	// shorter (RFC 7862 §15.1).
	Allocate(op *Op, f File, offset, length uint64) error
	// Deallocate makes a range zeros and gives back its storage as far as that
	// is divided so. The size stays (RFC 7862 §15.4).
	Deallocate(op *Op, f File, offset, length uint64) error
	// Seek finds the first byte at or behind offset that is in data, or in a
	// hole; behind the end is a hole. eof: there is none before the end, and at
	// is that (RFC 7862 §15.11). ENXIO: offset is not within the file. What is
	// told for data may be zeros; what is told for a hole is.
	Seek(op *Op, f File, offset uint64, what SeekWhat) (at uint64, eof bool, err error)
}

// Copier is the further interface of a FileSystem that copies by itself. from is
// a File to read of any FileSystem, to one of its own to write. They may be of one
// file, where the ranges do not overlap (EINVAL). EXDEV: not from that FileSystem.
// A count of 0 reaches to the end of from.
type Copier interface {
	// CopyRange copies, and returns how many bytes it copied: as many as it was
	// given, or fewer, as far as from reaches or as it saw fit. It fails only
	// where it copied none. What is copied is as stable as after a Write that
	// asks for Unstable.
	CopyRange(op *Op, from File, fromOffset uint64, to File, toOffset, count uint64) (n uint64, err error)
	// CloneRange has to share from's storage in the range, all of it or nothing,
	// as durably as attributes change (RFC 7862 §15.13). EINVAL: the range is not
	// aligned to the file system's blocks, or not all of it is in from.
	// ErrNotSupported: the file system does not share storage.
	CloneRange(op *Op, from File, fromOffset uint64, to File, toOffset, count uint64) error
}
