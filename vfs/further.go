package vfs

// A Wrapper is a FileSystem that stands before another one and passes on what it
// does not change.
type Wrapper interface {
	FileSystem
	// Unwrap is the file system behind it.
	Unwrap() FileSystem
}

// As finds the further interface T of fs: fs itself where it implements T, else
// the nearest of those that it wraps which does. A wrapper that changes what T
// does implements T; what goes by T passes by one that does not.
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

// Shared is the further interface of a FileSystem whose files others may show as well: it
// shows one directory of a volume, and they show other directories, or all of it.
type Shared interface {
	// Volume is comparable, and does not change. To two FileSystems with the same one a
	// Handle names the same file.
	Volume() any
}

// Placed is the further interface of a FileSystem whose directories the machine's own
// programs see by names.
type Placed interface {
	// Place says where a directory is: on which mount, by its ID in mountinfo (proc(5)),
	// and by which absolute path at this moment. It asks the kernel alone, and waits for
	// nothing.
	Place(op *Op, dir Handle) (mount uint64, path string, err error)
}
