package vfs

// SeekWhat is what Seek looks for: data or a hole.
type SeekWhat uint8

// The values of SeekWhat (RFC 7862 §11.11).
const (
	SeekData SeekWhat = iota
	SeekHole
)

// Sparse is an optional interface of a FileSystem that can find and make holes in files. A File
// argument must come from this FileSystem and be open for the access that the method needs;
// otherwise the method returns EBADF. As with File's methods, no permission is checked, and quotas
// and the clearing of set-id bits depend on op.Cred. Changes are as durable as changes of
// attributes.
type Sparse interface {
	// Allocate reserves storage for a range, so that a write to it cannot run out of space. The
	// content stays. If the file was shorter, it grows to the end of the range (RFC 7862 §15.1).
	Allocate(op *Op, f File, offset, length uint64) error
	// Deallocate zeroes a range and frees the storage blocks that lie entirely within it. The
	// size stays (RFC 7862 §15.4).
	Deallocate(op *Op, f File, offset, length uint64) error
	// Seek returns the first offset, at or after the given one, that lies in data (SeekData) or in
	// a hole (SeekHole). The range after the end of the file counts as a hole. If there is no such
	// offset before the end, eof is true and the result at is the file's size (RFC 7862 §15.11).
	// ENXIO: offset is not within the file. Reported data may be zeros; a reported hole always is.
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
