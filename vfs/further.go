package vfs

// A Wrapper is a FileSystem that passes calls on to another one, except those that it changes.
type Wrapper interface {
	FileSystem
	// Unwrap returns the wrapped file system.
	Unwrap() FileSystem
}

// As finds the optional interface T of fs. If fs implements T, it returns fs; otherwise it returns
// the nearest wrapped FileSystem that does. ok is false if none does. A wrapper that wants to
// change T's methods has to implement T itself, because calls through T bypass every wrapper that
// does not.
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

// Shared is an optional interface of a FileSystem that shows one directory of a volume. Other
// FileSystems may show other directories of the same volume, or all of it, and so the same files.
type Shared interface {
	// Volume returns a comparable value that never changes. In two FileSystems with the same
	// Volume, a Handle names the same file.
	Volume() any
}

// Placed is an optional interface of a FileSystem whose directories local programs reach by path.
type Placed interface {
	// Place returns a directory's mount, as an ID in mountinfo (proc(5)), and its absolute path at
	// this moment. Finding dir may block, unless op.Try is set; reading its path does not.
	Place(op *Op, dir Handle) (mount uint64, path string, err error)
}
